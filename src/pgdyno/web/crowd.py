"""Who may stay connected, and who leaves first: limits in time, of one address and of the whole process. No I/O.

A connection that has proved the token is *admitted*; without a token everyone is, once the Host header names us.
One that a request is under way on is *busy*. Nobody who is both is ever turned out for somebody else's sake.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many may be connected, and how long they may keep us waiting. Times in seconds, sizes in bytes.

    A browser opens six connections to a host; `strangers` bounds those of one address that are not admitted.
    """

    connections: int = 256
    peer: int = 128
    strangers: int = 64
    head_s: float = 10.0
    """For a complete request, its body included, from the connection or from the last answer on."""
    stall_s: float = 30.0
    """In which a client takes `progress` of what waits for it, or all of it."""
    stranger_stall_s: float = 10.0
    progress: int = 32 << 10
    streams: int = 96
    """Pages that are open and moving."""
    peer_streams: int = 32


class Guest(Protocol):
    """A connection, as far as it matters for letting it stay."""

    @property
    def peer(self) -> str:
        """Return for whom it counts, see `peer_of`."""

    @property
    def since(self) -> float:
        """Return when it connected, or when its last request began or was answered."""

    @property
    def is_busy(self) -> bool:
        """Return whether a request is under way."""

    @property
    def is_admitted(self) -> bool:
        """Return whether one of its requests was let in."""

    @property
    def is_owing(self) -> bool:
        """Return whether we wait for a request or for the rest of one."""

    @property
    def unsent(self) -> int:
        """Return how many bytes of ours the client has yet to take."""

    def leave(self) -> None:
        """Cut the connection at once."""


class Crowd:
    """All connections of a server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._marks: dict[Guest, tuple[float, int] | None] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def enter(self, guest: Guest) -> bool:
        """Take a newcomer in, at the cost of the one who matters least; False when all others matter more."""
        beside = [one for one in self._marks if one.peer == guest.peer]
        strangers = [one for one in beside if not one.is_admitted]
        for most, rivals in (
            (self.limits.strangers, strangers),
            (self.limits.peer, beside),
            (self.limits.connections, list(self._marks)),
        ):
            present = [one for one in rivals if one in self._marks]
            if len(present) >= most and not self._turn_one_out(present):
                return False
        self._marks[guest] = None
        return True

    def forget(self, guest: Guest) -> None:
        """Take note that a connection is closed."""
        self._marks.pop(guest, None)

    def sweep(self, now: float) -> None:
        """Cut those that keep us waiting for too long: for their request, or for reading our answer."""
        for guest in [one for one in self._marks if self._is_overdue(one, now)]:
            self._turn_out(guest)

    def _turn_one_out(self, rivals: list[Guest]) -> bool:
        """Cut a silent stranger, else an idle reader, else a stranger whose request is under way: the oldest first.

        Of several addresses the one with the most connections loses, so that many from one do not drive out others.
        """
        peers = [one.peer for one in self._marks]
        candidates = [one for one in rivals if not (one.is_busy and one.is_admitted)]
        if not candidates:
            return False
        self._turn_out(
            min(candidates, key=lambda one: (one.is_busy, one.is_admitted, -peers.count(one.peer), one.since))
        )
        return True

    def _turn_out(self, guest: Guest) -> None:
        self.forget(guest)
        guest.leave()

    def _is_overdue(self, guest: Guest, now: float) -> bool:
        if guest.is_owing and now - guest.since > self.limits.head_s:
            return True
        unsent, mark = guest.unsent, self._marks[guest]
        if not unsent:
            self._marks[guest] = None
            return False
        at, most = mark or (now, 0)
        if unsent <= most - self.limits.progress:
            at, most = now, unsent
        self._marks[guest] = at, max(most, unsent)
        return now - at > (self.limits.stall_s if guest.is_admitted else self.limits.stranger_stall_s)


@dataclass(eq=False, slots=True)
class Seat:
    """The place of one page that is open and moving; `is_lost` when another has taken it."""

    peer: str
    is_lost: bool = False


class Seats:
    """The pages that are open and moving. One too many takes the oldest place of whoever has the most."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._taken: list[Seat] = []

    def __len__(self) -> int:
        return len(self._taken)

    def take(self, peer: str) -> Seat:
        """Return a place for a page of this address."""
        self._free([seat for seat in self._taken if seat.peer == peer], self._limits.peer_streams)
        self._free(self._taken, self._limits.streams)
        self._taken.append(seat := Seat(peer))
        return seat

    def give_back(self, seat: Seat) -> None:
        """Take note that a page is closed; one that had lost its place is known already."""
        if not seat.is_lost:
            self._taken.remove(seat)

    def _free(self, rivals: list[Seat], most: int) -> None:
        if len(rivals) >= most:
            peers = [seat.peer for seat in rivals]
            lost = max(rivals, key=lambda seat: peers.count(seat.peer))  # the first, hence oldest, of the fullest
            lost.is_lost = True
            self._taken.remove(lost)


def peer_of(client: tuple[str, int] | None) -> str:
    """Return whom a connection counts for: an address, the network of an IPv6 host, or all of this machine as one."""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0] if client else "")
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return "loopback" if address.is_loopback else str(ipaddress.ip_network((address, 64), strict=False))
        address = address.ipv4_mapped
    return "loopback" if address.is_loopback else str(address)
