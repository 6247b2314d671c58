"""Read rows of iostat with care: what a device's figures say, and whether they fit each other.

%util is the share of time in which a device had at least one request. A device that serves many at once, such as a
striped volume, a storage server's LUN or NVMe, stands at 100 % long before it is at its limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown

LONG_QUEUE = 8.0
LONG_WAIT_MS = 2.0
"""Requests queue where more than a few wait at any time, and each of them for long; both are pgdyno's own bounds."""
_TOLERANCE = 0.03


class DeviceLoad(StrEnum):
    """What a device's figures allow to say."""

    QUEUEING = "queueing"
    BUSY = "busy, not queueing"
    QUIET = "quiet"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The state of one device with a sentence that quotes its figures."""

    device: str
    state: DeviceLoad
    sentence: str


def load_state(row: DeviceActivity) -> DeviceState:
    """Judge one device by its queue and its waits, never by %util."""
    waits = [wait for wait in (row.read_await_ms, row.write_await_ms) if not isinstance(wait, Unknown)]
    if isinstance(row.queue, Unknown) or not waits:
        missing = "aqu-sz" if isinstance(row.queue, Unknown) else "r_await and w_await"
        return DeviceState(row.device, DeviceLoad.UNKNOWN, f"{row.device}: {missing} was not printed.")
    busy = not isinstance(row.util_pct, Unknown) and row.util_pct >= 90
    queueing = row.queue >= LONG_QUEUE and max(waits) >= LONG_WAIT_MS
    state = DeviceLoad.QUEUEING if queueing else DeviceLoad.BUSY if busy else DeviceLoad.QUIET
    util = "" if isinstance(row.util_pct, Unknown) else f", %util {row.util_pct:.4g}"
    return DeviceState(
        row.device,
        state,
        f"{row.device} is {state}: aqu-sz {row.queue:.6g}, longest mean wait {max(waits):.4g} ms{util}.",
    )


def inconsistencies(row: DeviceActivity) -> tuple[str, ...]:
    """Return where the columns of a row contradict each other; the unknown is not checked, rounding is forgiven.

    rareq-sz = rkB/s / r/s, wareq-sz = wkB/s / w/s, aqu-sz = (r/s r_await + w/s w_await) / 1000 (Little's law).
    """
    found = []
    for column, printed, computed, rounding in _relations(row):
        if abs(printed - computed) > rounding + _TOLERANCE * max(abs(printed), abs(computed)):
            found.append(f"{row.device}: {column} is {printed:.6g}, the other columns give {computed:.6g}")
    return tuple(found)


def _relations(row: DeviceActivity) -> Iterator[tuple[str, float, float, float]]:
    """Yield column, printed figure, figure by the others, and what the two digits of iostat round away."""
    for column, size, kilobytes, rate in (
        ("rareq-sz", row.read_request_kb, row.read_kb_s, row.reads_s),
        ("wareq-sz", row.write_request_kb, row.write_kb_s, row.writes_s),
    ):
        if isinstance(size, Unknown) or isinstance(kilobytes, Unknown) or isinstance(rate, Unknown) or rate <= 0:
            continue
        yield column, size, kilobytes / rate, 0.01 + 0.01 * kilobytes / rate**2
    columns = (row.reads_s, row.read_await_ms, row.writes_s, row.write_await_ms)
    numbers = [column for column in columns if not isinstance(column, Unknown)]
    if isinstance(row.queue, Unknown) or len(numbers) < len(columns):
        return
    reads, read_wait, writes, write_wait = numbers
    rounding = 0.01 + 0.005 * (reads + writes) / 1000
    yield "aqu-sz", row.queue, (reads * read_wait + writes * write_wait) / 1000, rounding
