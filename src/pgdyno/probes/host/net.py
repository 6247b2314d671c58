"""/proc/net/dev: traffic of each network interface (proc(5))."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.model.samples import SampleValue


@dataclass(frozen=True, slots=True)
class Traffic:
    """The counters of one direction since the interface came up."""

    byte_count: int
    packets: int
    errors: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Interface:
    """What one interface received and sent."""

    received: Traffic
    sent: Traffic


def parse(text: str) -> dict[str, Interface]:
    """Parse /proc/net/dev into the interfaces that carried anything since they came up."""
    interfaces = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        counts = [int(field) for field in rest.split()]
        if any(counts):
            interfaces[name.strip()] = Interface(Traffic(*counts[0:4]), Traffic(*counts[8:12]))
    return interfaces


def parse_speeds(text: str) -> dict[str, float]:
    """Parse the lines `interface Mbit/s` of `host_texts.SPEEDS`."""
    return {name: float(speed) for name, _, speed in (line.partition(" ") for line in text.splitlines())}


def rows(
    before: Mapping[str, Interface], after: Mapping[str, Interface], interval_s: float
) -> list[tuple[SampleValue, ...]]:
    """Return the values of table `net`, one row for each interface that is in both readings."""
    return [_row(name, before[name], now, interval_s) for name, now in after.items() if name in before]


def _row(name: str, before: Interface, after: Interface, interval_s: float) -> tuple[SampleValue, ...]:
    def rate(growth: int, unit: int = 1) -> float:
        return growth / unit / interval_s

    received, sent, was_received, was_sent = after.received, after.sent, before.received, before.sent
    return (
        name,
        interval_s,
        rate(received.byte_count - was_received.byte_count, 1024),
        rate(sent.byte_count - was_sent.byte_count, 1024),
        rate(received.packets - was_received.packets),
        rate(sent.packets - was_sent.packets),
        received.errors - was_received.errors,
        sent.errors - was_sent.errors,
        received.dropped - was_received.dropped,
        sent.dropped - was_sent.dropped,
    )
