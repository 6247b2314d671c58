"""Read rows of iostat with care: what a device's figures say, and whether they fit each other.

%util is the share of time in which a device had at least one request. A device that serves many at once, such as a
striped volume, a storage server's LUN or NVMe, stands at 100 % long before it is at its limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown

LONG_QUEUE = 8.0
LONG_WAIT_MS = 2.0
"""Requests queue where more than a few wait at any time, and each of them for long; both are pgdyno's own bounds."""
_TOLERANCE = 0.03


class LoadState(StrEnum):
    """What a device's figures allow to say."""

    QUEUEING = "queueing"
    BUSY = "busy, not queueing"
    QUIET = "quiet"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The state of one device with a sentence that quotes its figures."""

    device: str
    state: LoadState
    sentence: str


def load_state(row: DeviceActivity) -> DeviceState:
    """Judge one device by its queue and its waits, never by %util."""
    waits = [wait for wait in (row.read_await_ms, row.write_await_ms) if not isinstance(wait, Unknown)]
    if isinstance(row.queue, Unknown) or not waits:
        missing = "aqu-sz" if isinstance(row.queue, Unknown) else "r_await and w_await"
        return DeviceState(row.device, LoadState.UNKNOWN, f"{row.device}: {missing} was not printed.")
    busy = not isinstance(row.util_pct, Unknown) and row.util_pct >= 90
    queueing = row.queue >= LONG_QUEUE and max(waits) >= LONG_WAIT_MS
    state = LoadState.QUEUEING if queueing else LoadState.BUSY if busy else LoadState.QUIET
    util = "" if isinstance(row.util_pct, Unknown) else f", %util {row.util_pct:.4g}"
    return DeviceState(
        row.device,
        state,
        f"{row.device} is {state}: aqu-sz {row.queue:.6g}, longest mean wait {max(waits):.4g} ms{util}.",
    )


def inconsistencies(row: DeviceActivity) -> tuple[str, ...]:
    """Return where the columns of a row contradict each other; the unknown is not checked, rounding is forgiven.

    Request size is kB over requests, and the queue is rate times wait (Little's law).
    """
    found = []
    checks = (
        ("rareq-sz", row.read_request_kb, _quotient(row.read_kb_s, row.reads_s), 0.006),
        ("wareq-sz", row.write_request_kb, _quotient(row.write_kb_s, row.writes_s), 0.006),
        ("aqu-sz", row.queue, _little(row), _rounding_of_queue(row)),
    )
    for column, printed, computed, rounding in checks:
        if isinstance(printed, Unknown) or computed is None:
            continue
        if abs(printed - computed) > max(rounding, _TOLERANCE * max(abs(printed), abs(computed))):
            found.append(f"{row.device}: {column} is {printed:.6g}, the other columns give {computed:.6g}")
    return tuple(found)


def _quotient(total: float | Unknown, count: float | Unknown) -> float | None:
    if isinstance(total, Unknown) or isinstance(count, Unknown) or count == 0:
        return None
    return total / count


def _little(row: DeviceActivity) -> float | None:
    columns = (row.reads_s, row.read_await_ms, row.writes_s, row.write_await_ms)
    numbers = [column for column in columns if not isinstance(column, Unknown)]
    if len(numbers) < len(columns):
        return None
    reads, read_wait, writes, write_wait = numbers
    return (reads * read_wait + writes * write_wait) / 1000


def _rounding_of_queue(row: DeviceActivity) -> float:
    """Waits are printed to 0.01 ms, so that the product is off by half of that for every request."""
    rates = [rate for rate in (row.reads_s, row.writes_s) if not isinstance(rate, Unknown)]
    return 0.006 + sum(rates) * 0.005 / 1000
