"""`python3 -m cluster`."""

import sys

from cluster.cli import main

sys.exit(main(sys.argv[1:]))
