"""Ports of the loopback for the servers of tests.

The kernel hands ports from 32768 on to whoever asks, between our look and the start of a server too: ours lie below,
and each worker of xdist has its own thousand.
"""

from __future__ import annotations

import itertools
import os
import socket

FIRST, EACH = 20_000, 1_000
_next = itertools.count(97 * os.getpid())
"""Two runs that are begun together, each with a first worker, have numbers side by side: their ports are far apart."""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on; a later call returns others."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    found: list[int] = []
    while len(found) < count:
        port = FIRST + EACH * (worker % 10) + next(_next) % EACH
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: one in TIME_WAIT is free
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found
