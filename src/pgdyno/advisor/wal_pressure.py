"""Whether WAL starts the checkpoints, how fast it is written, and the file system that it lies on. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pgdyno.advisor.amounts import too_little_wal
from pgdyno.advisor.case import Case, Missing
from pgdyno.advisor.judgement import CannotTell, InOrder
from pgdyno.advisor.planned import counted, planned, shown
from pgdyno.model.evidence import CHECKPOINT_SETTINGS, LogEvidence, Statistics
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Purpose
from pgdyno.units import bytes_text, percent_text, plural, seconds_text

_IMAGES_COUNTED = "each counted as a whole page; an image leaves out the unused middle of its page"
_HEAVY_IMAGES = 0.5
"""Share of full-page images in the WAL from which the burst after each checkpoint is what the WAL mostly holds."""
FEWEST_REQUESTED = 3
"""So many more requested checkpoints than timed ones are no longer somebody's CHECKPOINT or a backup."""
_IMAGE_SETTINGS = ("full_page_writes", "wal_compression", *CHECKPOINT_SETTINGS)
"""Settings that decide how much of the WAL are full-page images."""
_QUOTED = ("too_frequent", "wal_start", "wal_complete")
"""Lines of the log that show pressure; the last checkpoint of all may be that of a shutdown."""


@dataclass(frozen=True, slots=True)
class HeavyImages:
    """Full-page images that are most of the WAL in the window: their share, and the sentence that says so."""

    share: float
    sentence: str


def heavy_images(case: Case) -> HeavyImages | InOrder | CannotTell:
    """Return the full-page images where they make up most of the WAL, else the answer of a rule. Raises Missing."""
    numbers = counted(case, *_IMAGE_SETTINGS)
    share, little = numbers.full_page_image_share, too_little_wal(numbers)
    if isinstance(share, Unknown):
        return CannotTell(f"the share of full-page images in the WAL is unknown ({share.reason})")
    most = f"Full-page images are at most {percent_text(share)} of the WAL"
    if little is not None:
        return InOrder(f"{most}, but {little}.", of_load=True)
    if share < _HEAVY_IMAGES:
        return InOrder(f"{most}.")
    said = f"Full-page images are up to {percent_text(share)} of the WAL in the window ({_IMAGES_COUNTED})."
    return HeavyImages(share, said)


@dataclass(frozen=True, slots=True)
class WalRate:
    """WAL bytes a second and where the figure comes from."""

    bytes_s: float
    source: str


def pressure_of(case: Case) -> Iterator[str]:
    """Yield sentences that show that WAL and not time starts the checkpoints; none when it does not.

    Only what was seen with the present settings counts: the log since they changed, counters that began after it.
    """
    log = case.evidence.log
    if not isinstance(log, Unknown) and not is_of_earlier_size(case, log):
        if log.too_frequent_s:
            yield (
                f"The log says {_times(len(log.too_frequent_s))} that checkpoints are occurring too frequently, "
                f"{_span(log.too_frequent_s)} apart."
            )
        by_wal, by_time = log.starts.get("wal", 0), log.starts.get("time", 0)
        if by_wal > by_time:
            yield f"The log shows {plural(by_wal, 'checkpoint')} that WAL started, and {by_time} that time started."
        if log.too_frequent_s or by_wal > by_time:
            since = log.anew(*CHECKPOINT_SETTINGS)
            yield from () if since is None else (f"All of this is from after {since}.",)
            yield from (f"Log: {quote}" for name, quote in log.quotes.items() if name in _QUOTED)
            yield from (f"Log: {hint}" for hint in log.hints if "max_wal_size" in hint)
    numbers = _counted(case)
    if not isinstance(numbers, str):
        requested, timed = numbers.checkpoints_requested, numbers.checkpoints_timed
        if isinstance(requested, int) and isinstance(timed, int) and requested - timed >= FEWEST_REQUESTED:
            yield (
                f"In {seconds_text(numbers.window.seconds)} the counters show {requested} requested checkpoints and "
                f"{timed} timed ones; CHECKPOINT and backups count as requested too."
            )


def is_of_earlier_size(case: Case, log: LogEvidence) -> bool:
    """Tell whether what the log shows of WAL since max_wal_size changed was still started by the size before.

    A process takes over a new size between two commands, so a long one still asks for checkpoints by the old one, as
    does a request that waits. Such a checkpoint ends a distance that is too short for the size in force.
    """
    changed = log.changed.get("max_wal_size")
    if not changed:  # never, or the log has no times
        return False
    reached = [
        one.distance_bytes
        for one in log.checkpoints
        if one.cause == "wal" and not isinstance(one.distance_bytes, Unknown) and str(one.at) > changed
    ]
    if not reached:
        return max(len(log.too_frequent_s), log.starts.get("wal", 0)) < FEWEST_REQUESTED
    # WAL starts a checkpoint when a segment is full, at most one before the size, so half of it decides.
    return 2 * max(reached) + case.number("wal_segment_size") < case.number("max_wal_size") / _cycles_now(case)


def _cycles_now(case: Case) -> float:
    return cycles(case.number("checkpoint_completion_target"), case.server.major)


def _counted(case: Case) -> Statistics | str:
    """Return the counters of checkpoints under the present settings, else why there are none."""
    try:
        return counted(case, *CHECKPOINT_SETTINGS)
    except Missing as missing:
        return missing.reason


def checkpoints_unseen(case: Case) -> str | None:
    """Return why neither log nor counters can tell what starts checkpoints; None where one of them shows it.

    A log without any checkpoint tells nothing: log_checkpoints is off in it, or it is of a moment without a load.
    """
    log, numbers = case.evidence.log, _counted(case)
    if isinstance(log, Unknown):
        of_log = log.reason
    elif log.starts and not is_of_earlier_size(case, log):
        return None
    elif (since := log.anew(*CHECKPOINT_SETTINGS)) is not None:
        before = log.earlier.get("too_frequent", 0)
        said = f"; what it said {_times(before)} before, that they come too frequently, was of then" if before else ""
        of_new = " that the new size started" if log.starts else ""
        of_log = f"{since}, and the log shows no checkpoint since{of_new}{said}"
    elif log.checkpoints:
        return None
    else:
        of_log = "the log shows no checkpoint"
    if isinstance(numbers, str):
        return f"{of_log}; {numbers}"
    for counter in (numbers.checkpoints_requested, numbers.checkpoints_timed):
        if isinstance(counter, Unknown):
            return f"{of_log}; {counter.reason}"
    return None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _span(seconds: tuple[int, ...]) -> str:
    low, high = min(seconds), max(seconds)
    return f"{low} to {high} seconds" if low != high else plural(low, "second")


def wal_rate(case: Case) -> WalRate | None:
    """Return the rate of WAL at load, None when the evidence shows none."""
    rate = case.evidence.wal_rate_bytes_s
    if isinstance(rate, Unknown) or rate <= 0:
        return None
    return WalRate(rate, case.evidence.wal_rate_source or "the window")


def no_rate(case: Case) -> Missing:
    """Return what to raise where `wal_rate` finds none."""
    rate = case.evidence.wal_rate_bytes_s
    return Missing("the WAL rate", rate.reason if isinstance(rate, Unknown) else "no WAL was written in the window")


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
    return size, f"the free space of {mount.point} (which holds the data too)" if shared else mount.point, ()


MB = 1 << 20
GB = 1 << 30
ABOUT_HALF = 0.55
"""A file system holds a little less than its device: the half of a 512 GiB volume still counts as 256 GB."""


def wanted_bytes(rate_bytes_s: float, timeout_s: float, target: float, major: int) -> float:
    """Return the least max_wal_size, in bytes, at which checkpoints come by time at this rate of WAL.

    `rate_bytes_s` is the WAL written, in bytes a second. `timeout_s` is checkpoint_timeout in seconds, `target`
    checkpoint_completion_target, a share; `major`, the server's version, decides how many checkpoint distances
    max_wal_size holds.
    """
    return rate_bytes_s * timeout_s * cycles(target, major)


def cycles(target: float, major: int) -> float:
    """Return how many checkpoint distances max_wal_size holds: 1 + target from 11, 2 + target before."""
    return (1 if major >= 11 else 2) + target


def power_of_two(size: float, least: int = 64 * MB) -> int:
    """Return the smallest power of two that holds so many bytes."""
    found = least
    while found < size:
        found *= 2
    return found


def cap_bytes(file_system_bytes: float, wanted: int) -> int | None:
    """Return what a file system of this size allows when it is less than wanted: half, in whole GB or 64 MB."""
    if wanted <= ABOUT_HALF * file_system_bytes:
        return None
    half = file_system_bytes / 2
    step = GB if half >= 2 * GB else 64 * MB
    return int(half // step * step)
