"""The process that takes a replication away when the rehearsal that made it is gone. Started by `LinkGuard` alone.

Its standard input is a pipe whose other end the rehearsal holds: the first line says what is to be taken away, the
second that nothing is; it says when it has read the first. The pipe ends with the rehearsal, however that ends.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from pgdyno.errors import PgdynoError
from pgdyno.migration.movers.logical_link import READY, ReplicationLink
from pgdyno.server.postgres import Postgres

_AGAIN_S = 5.0
_AT_MOST_S = 86_400.0


def main() -> None:
    """Wait for the end of the pipe, then take away what is there; again and again for a day where a server is down."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)  # it ends by itself, as soon as nothing is left
    given = sys.stdin.buffer.readline()
    if not given.endswith(b"\n"):
        return
    words = json.loads(given)
    link = ReplicationLink(words["name"], Postgres(words["source"]), Postgres(words["target"]))
    sys.stdout.write(READY)
    sys.stdout.flush()
    if sys.stdin.buffer.readline():
        return
    deadline = time.monotonic() + _AT_MOST_S
    while time.monotonic() < deadline:
        try:
            link.take_away()
            return
        except PgdynoError:
            time.sleep(_AGAIN_S)


if __name__ == "__main__":
    main()
