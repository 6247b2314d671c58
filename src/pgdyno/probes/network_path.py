"""The path between the load and the server: whether a network lies on it, and how long one round trip takes.

The observer's session takes the same path as the load's where both name the server alike. An empty statement asks the
server for nothing, so that its time is the path's, and what both machines need to wake up.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import DictRow

OVER_NETWORK, ROUND_TRIP_MS, LINK_MBIT = "over_network", "round_trip_ms", "link_mbit."
"""What a run's counters call it: 1 or 0; milliseconds; the speed of an interface, whose name follows."""
ROUND_TRIPS = "round_trips"
"""How often a transaction of the load waits for the server's answer."""
PAUSE_S = "script_pause_s"
"""How long a client sleeps for each transaction at least, on average, by its script or between two."""


def is_network(connection: psycopg.Connection[DictRow]) -> bool:
    """Tell whether a session leaves this machine: no Unix socket, no loopback, and not to one of our own addresses."""
    with socket.socket(fileno=os.dup(connection.fileno())) as session:
        if session.family == socket.AF_UNIX:
            return False
        here, there = (str(name[0]).partition("%")[0] for name in (session.getsockname(), session.getpeername()))
    return here != there and not ipaddress.ip_address(there).is_loopback


def is_elsewhere(host: str) -> bool:
    """Tell whether a host that libpq is given is another machine: no folder of sockets, and no address of ours."""
    if host.startswith(("/", "@")):
        return False
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return True
    return not any(_is_ours(family, address) for family, _, _, _, address in found)


def _is_ours(family: int, address: Sequence[object]) -> bool:
    """Tell whether an address can be bound, which only one of this machine can."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(tuple(address))
        except OSError:
            return False
    return True


def round_trip_s(connection: psycopg.Connection[DictRow]) -> float:
    """Return how long the server takes to answer nothing. Raises psycopg's errors."""
    began = time.perf_counter()
    connection.pgconn.exec_(b"").clear()
    if connection.broken:
        from psycopg import OperationalError  # pages read the names above and ask no server

        raise OperationalError("the session was lost")
    return time.perf_counter() - began


def path_counters(
    over_network: bool | None, round_trips_s: Sequence[float], speeds: Mapping[str, float]
) -> dict[str, float]:
    """Return the counters of a run; what is not known is not among them.

    Of the round trips the lower quartile counts: a second in which a CPU was busy makes one longer, not the network.
    """
    found = {f"{LINK_MBIT}{name}": speed for name, speed in speeds.items()}
    if over_network is not None:
        found[OVER_NETWORK] = float(over_network)
    if over_network and len(round_trips_s) >= 2:
        found[ROUND_TRIP_MS] = 1000 * statistics.quantiles(round_trips_s, n=4, method="inclusive")[0]
    return found


def link_speeds(counters: Mapping[str, float]) -> dict[str, float]:
    """Return Mbit/s of the interfaces from the counters of a run."""
    return {name.removeprefix(LINK_MBIT): speed for name, speed in counters.items() if name.startswith(LINK_MBIT)}
