"""Whether WAL starts the checkpoints, how fast it is written, and the file system that it lies on. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pgdyno.advisor.case import Case
from pgdyno.advisor.planned import planned, shown
from pgdyno.advisor.wal_size import cycles, rate_of_log
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Purpose
from pgdyno.units import bytes_text, seconds_text

HEAVY_IMAGES = 0.5
IMAGES_COUNTED = "each counted as a whole page; an image leaves out the unused middle of its page"
"""Share of full-page images in the WAL from which the burst after each checkpoint is what the WAL mostly holds."""
_QUOTED = ("too_frequent", "wal_start", "wal_complete")
"""Lines of the log that show pressure; the last checkpoint of all may be that of a shutdown."""


@dataclass(frozen=True, slots=True)
class WalRate:
    """WAL bytes a second and where the figure comes from."""

    bytes_s: float
    source: str


def pressure_of(case: Case) -> Iterator[str]:
    """Yield sentences that show that WAL and not time starts the checkpoints; none when it does not."""
    log, counted = case.evidence.log, case.evidence.statistics
    if not isinstance(log, Unknown):
        if log.too_frequent_s:
            yield (
                f"The log says {_times(len(log.too_frequent_s))} that checkpoints are occurring too frequently, "
                f"{_span(log.too_frequent_s)} apart."
            )
        by_wal, by_time = log.starts.get("wal", 0), log.starts.get("time", 0)
        if by_wal > by_time:
            yield f"The log shows {by_wal} checkpoints that WAL started, and {by_time} that time started."
        if log.too_frequent_s or by_wal > by_time:
            yield from (f"Log: {quote}" for name, quote in log.quotes.items() if name in _QUOTED)
            yield from (f"Log: {hint}" for hint in log.hints if "max_wal_size" in hint)
    if not isinstance(counted, Unknown):
        requested, timed = counted.checkpoints_requested, counted.checkpoints_timed
        if isinstance(requested, int) and isinstance(timed, int) and requested > timed:
            yield (
                f"In {seconds_text(counted.window.seconds)} the counters show {requested} requested checkpoints and "
                f"{timed} timed ones; CHECKPOINT and backups count as requested too."
            )


def checkpoints_unseen(case: Case) -> str | None:
    """Return why neither log nor counters can tell what starts checkpoints; None where one of them shows it.

    A log without any checkpoint tells nothing: log_checkpoints is off in it, or it is of a moment without a load.
    """
    log, counted = case.evidence.log, case.evidence.statistics
    if isinstance(log, Unknown):
        of_log = log.reason
    elif log.starts or log.checkpoints:
        return None
    else:
        of_log = "the log shows no checkpoint"
    if isinstance(counted, Unknown):
        return f"{of_log}; {counted.reason}"
    for counter in (counted.checkpoints_requested, counted.checkpoints_timed):
        if isinstance(counter, Unknown):
            return f"{of_log}; {counter.reason}"
    return None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _span(seconds: tuple[int, ...]) -> str:
    low, high = min(seconds), max(seconds)
    return f"{low} to {high} seconds" if low != high else f"{low} second{'' if low == 1 else 's'}"


def wal_rate(case: Case) -> WalRate | None:
    """Return the highest rate that the evidence shows, None when it shows none."""
    found = []
    if not isinstance(case.evidence.wal_rate_bytes_s, Unknown):
        found.append(WalRate(case.evidence.wal_rate_bytes_s, case.evidence.wal_rate_source or "the window"))
    counted = case.evidence.statistics
    if not isinstance(counted, Unknown) and not isinstance(counted.wal_bytes_s, Unknown):
        found.append(WalRate(counted.wal_bytes_s, "the counters of the window"))
    log = case.evidence.log
    from_log = None if isinstance(log, Unknown) else rate_of_log(log.checkpoints)
    if from_log is not None:
        found.append(WalRate(from_log, "the distances of the log's checkpoints"))
    return max((rate for rate in found if rate.bytes_s > 0), key=lambda rate: rate.bytes_s, default=None)


def pressure_by_rate(case: Case, rate: WalRate) -> str | None:
    """Return a sentence when WAL at this rate starts checkpoints before time does; None when time comes first."""
    size, timeout = case.number("max_wal_size"), case.number("checkpoint_timeout")
    distance = size / cycles(planned(case, "checkpoint_completion_target"), case.server.major)
    seconds = distance / rate.bytes_s
    if seconds >= timeout:
        return None
    return (
        f"At {bytes_text(rate.bytes_s)} of WAL a second ({rate.source}) max_wal_size = {shown(case, 'max_wal_size')} "
        f"starts a checkpoint every {seconds:.3g} s, and time would after {seconds_text(timeout)}."
    )


def wal_file_system(case: Case) -> tuple[float | None, str, tuple[str, ...]]:
    """Return the bytes that WAL may share, where, and the doubts when they are not known."""
    place, data = case.host.place(Purpose.WAL), case.host.place(Purpose.DATA)
    place = place or data
    unsure = ("the size of the WAL file system is unknown: it must hold twice the value",)
    if place is None or isinstance(place.mount_point, Unknown):
        return None, "", unsure
    mount = case.host.mount(place.mount_point)
    if mount is None:
        return None, "", unsure
    shared = data is not None and data.mount_point == place.mount_point
    size = mount.free_bytes if shared else mount.size_bytes
    if isinstance(size, Unknown):
        return None, "", unsure
    return size, f"the free space of {mount.point}, which holds the data too," if shared else mount.point, ()
