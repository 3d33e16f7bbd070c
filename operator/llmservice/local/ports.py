"""Free TCP ports of this host, that stay free until whoever asked for them listens."""

from __future__ import annotations

import random
import socket
from typing import Final

CHOICE: Final = range(27_000, 30_000)
"""Below the ports that Linux gives to outgoing connections (from 32768) and to Kubernetes' NodePorts (from 30000).

A port that the kernel itself chose (`bind` to 0) is one that the next connection of any process may get meanwhile.
"""
ATTEMPTS: Final = 1000
_given: Final[set[int]] = set()


def free_ports(count: int, ports: range = CHOICE) -> list[int]:
    """Distinct ports of 127.0.0.1 that nobody uses; none is given twice by this process. Raises OSError without any."""
    found: list[int] = []
    for port in random.sample(ports, min(ATTEMPTS, len(ports))):  # another process begins elsewhere
        if len(found) == count:
            break
        if port not in _given and is_free(port):
            found.append(port)
    if len(found) < count:
        raise OSError(f"no {count} free ports of 127.0.0.1 between {ports.start} and {ports.stop - 1}")
    _given.update(found)
    return found


def is_free(port: int) -> bool:
    """Whether a server could listen at it on 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
