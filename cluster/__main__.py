"""`python3 -m cluster`."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (this runs under whatever python3 the host has)
    sys.exit("error: the embedded cluster's tool needs Python 3.11 or later: run it as `python3.11 -m cluster`")

from cluster.cli import main

sys.exit(main(sys.argv[1:]))
