"""Who leaves when too many are connected, and when one has kept us waiting for too long: decisions without a socket."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.web.crowd import ConnectionLimits, Crowd, Seats, peer_of

SMALL = ConnectionLimits(connections=12, peer=6, strangers=3, streams=4, peer_streams=2)


@dataclass(eq=False)
class Guest:
    peer: str = "192.0.2.1"
    since: float = 0.0
    is_busy: bool = False
    is_admitted: bool = False
    is_owing: bool = True
    unsent: int = 0
    left: list[bool] = field(default_factory=list)

    def leave(self) -> None:
        self.left.append(True)


def test_the_oldest_silent_stranger_of_an_address_leaves_for_the_next() -> None:
    crowd, guests = Crowd(SMALL), [Guest(since=float(number)) for number in range(9)]
    assert all(crowd.enter(guest) for guest in guests)
    assert [bool(guest.left) for guest in guests] == [True] * 6 + [False] * 3


def test_readers_of_the_same_address_are_not_driven_out_by_silent_strangers() -> None:
    crowd = Crowd(SMALL)
    readers = [Guest(is_admitted=True, is_busy=number < 2) for number in range(3)]
    for guest in (*readers, *(Guest(since=1.0 + number) for number in range(500))):
        assert crowd.enter(guest)
    assert not any(guest.left for guest in readers)
    assert len(crowd) == SMALL.peer


def test_of_a_full_house_the_address_with_the_most_silent_connections_loses() -> None:
    crowd = Crowd(SMALL)
    one = Guest("198.51.100.9", since=0.0)
    crowd.enter(one)
    for number in range(40):
        crowd.enter(Guest(f"192.0.2.{number % 4}", since=1.0 + number))
    assert len(crowd) == SMALL.connections
    assert not one.left


def test_who_is_read_to_is_never_cut_for_a_newcomer() -> None:
    crowd = Crowd(SMALL)
    for _ in range(SMALL.peer):
        assert crowd.enter(Guest(is_admitted=True, is_busy=True))
    assert not crowd.enter(Guest())
    assert crowd.enter(Guest("192.0.2.2"))


def test_who_sends_no_request_in_time_is_cut_and_who_waits_for_us_is_not() -> None:
    crowd, silent, waiting = Crowd(SMALL), Guest(), Guest(is_owing=False, is_busy=True)
    for guest in (silent, waiting):
        crowd.enter(guest)
    crowd.sweep(SMALL.head_s)
    assert not silent.left
    crowd.sweep(SMALL.head_s + 0.1)
    assert (silent.left, waiting.left) == ([True], [])


@pytest.mark.parametrize(("is_admitted", "bound"), [(True, SMALL.stall_s), (False, SMALL.stranger_stall_s)])
def test_who_does_not_read_is_cut_and_who_reads_slowly_is_not(is_admitted: bool, bound: float) -> None:
    crowd = Crowd(SMALL)
    deaf, slow = (Guest(is_owing=False, is_busy=True, is_admitted=is_admitted, unsent=1 << 20) for _ in range(2))
    for guest in (deaf, slow):
        crowd.enter(guest)
    for tick in range(4):
        deaf.unsent += 1  # what we go on to write is no progress of theirs
        crowd.sweep(tick * bound * 0.7)
        slow.unsent -= SMALL.progress
    assert (deaf.left, slow.left) == ([True], [])


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=80))
def test_the_bounds_hold_whoever_comes(guests: list[tuple[int, bool, bool]]) -> None:
    crowd, inside = Crowd(SMALL), list[Guest]()
    for at, (peer, is_busy, is_admitted) in enumerate(guests):
        guest = Guest(f"p{peer}", float(at), is_busy, is_admitted)
        if crowd.enter(guest):
            inside.append(guest)
        inside = [one for one in inside if not one.left]
        assert len(inside) == len(crowd) <= SMALL.connections
        assert sum(one.peer == guest.peer for one in inside) <= SMALL.peer
    assert not [one for one in inside if one.left and one.is_busy and one.is_admitted]


def test_a_page_too_many_takes_the_oldest_place_of_its_address() -> None:
    seats = Seats(SMALL)
    first, second, third, other = (seats.take(peer) for peer in ("a", "a", "a", "b"))
    assert [seat.is_lost for seat in (first, second, third, other)] == [True, False, False, False]
    seats.give_back(first)
    assert len(seats) == 3
    for seat in (second, third, other):
        seats.give_back(seat)
    assert len(seats) == 0


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("127.0.0.1", "loopback"), ("127.8.0.1", "loopback"), ("::1", "loopback"), ("::ffff:127.0.0.1", "loopback"),
        ("192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7"), ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff", "2001:db8::/64"), ("fe80::1%eth0", "fe80::/64"), ("", "unknown"),
    ],
)  # fmt: skip
def test_for_whom_an_address_counts(address: str, peer: str) -> None:
    assert peer_of((address, 1)) == peer


def test_a_client_without_an_address_counts_as_unknown() -> None:
    assert peer_of(None) == "unknown"
