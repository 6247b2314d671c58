"""A chain's executions against those of the reference: windows by process, times by job, means by name. Pure.

The window of a process is from the start of its first job to the end of its last; jobs that one side skips are in the
window of neither. A job's time is the mean of the executions in which it succeeded. An execution of a process counts
when every job that is not skipped succeeded in it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.errors import UsageError
from pgdyno.model.results.batch import BatchResult, JobEnd, JobRun
from pgdyno.model.verdict import Interval
from pgdyno.studies.batch.chain import Chain, ChainJob, ChainProcess
from pgdyno.units import plural, seconds_text

WANTED = 3
"""Executions that a verdict wants."""


class Standing(StrEnum):
    """Whether a process keeps to the window of the reference."""

    PASS = "pass"  # noqa: S105 - a verdict, and no password
    FAIL = "fail"
    NOT_RESOLVED = "not resolved"


@dataclass(frozen=True, slots=True)
class ComparedJob:
    """A job's times on both sides, in seconds."""

    key: str
    reference_s: float
    seconds: float

    @property
    def is_shorter(self) -> bool:
        """Return True where it takes less time than in the reference."""
        return self.seconds < self.reference_s

    @property
    def saved_pct(self) -> float:
        """Return what it saves, in per cent of its time in the reference."""
        return 100 * (1 - self.seconds / self.reference_s)


@dataclass(frozen=True, slots=True)
class LeftOutJob:
    """A job that is not compared, and why."""

    key: str
    reason: str
    is_skipped: bool = False
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class ComparedProcess:
    """A process against the reference. `share_pct` and the interval are of its window; None where there is none."""

    name: str
    jobs: int
    threshold_s: float
    compared: tuple[ComparedJob, ...]
    left_out: tuple[LeftOutJob, ...]
    reference_s: float | None
    windows: tuple[float, ...]
    incomplete: int
    share_pct: float | None
    interval: Interval | None
    standing: Standing
    reason: str

    @property
    def compared_pct(self) -> float:
        """Return the share of the compared jobs in all jobs of the process."""
        return 100 * len(self.compared) / self.jobs

    @property
    def shorter(self) -> int:
        """Return how many jobs became shorter."""
        return sum(one.is_shorter for one in self.compared)

    @property
    def saved_pct(self) -> float | None:
        """Return what the summed times of the compared jobs save."""
        return _saved_of_sums(self.compared)

    @property
    def mean_saved_pct(self) -> float | None:
        """Return the plain mean of what the compared jobs save, a short one as much as a long one."""
        return _mean([one.saved_pct for one in self.compared])


@dataclass(frozen=True, slots=True)
class NamedMean:
    """An overall improvement, and which mean it is."""

    name: str
    saved_pct: float


@dataclass(frozen=True, slots=True)
class BatchComparison:
    """Two sides of a chain."""

    chain: str
    processes: tuple[ComparedProcess, ...]
    means: tuple[NamedMean, ...]

    @property
    def standing(self) -> Standing:
        """Return fail where a process fails, pass where all pass."""
        every = [one.standing for one in self.processes]
        for word in (Standing.FAIL, Standing.NOT_RESOLVED):
            if word in every:
                return word
        return Standing.PASS


def compare(chain: Chain, reference: BatchResult, found: BatchResult) -> BatchComparison:
    """Compare every process of the chain with the reference. Raises UsageError for a study of another chain."""
    for side in (reference, found):
        _require_jobs_of(chain, side)
    old, new = by_key(reference.jobs), by_key(found.jobs)
    processes = tuple(_process(one, old, new) for one in chain.processes)
    return BatchComparison(chain.name, processes, overall(processes))


def _require_jobs_of(chain: Chain, side: BatchResult) -> None:
    """Refuse a study none of whose jobs the chain has: nothing of it would be compared. Chains may be renamed."""
    if side.jobs and not any(one.key in chain.jobs for one in side.jobs):
        raise UsageError(
            f'study "{side.study}" has no job of chain {chain.name}: it is of chain {side.chain}',
            hint="Name the file of its chain, or another study: pgdyno store list shows them.",
        )


def overall(processes: Sequence[ComparedProcess]) -> tuple[NamedMean, ...]:
    """Return the overall improvement by each mean that it could be; they differ, so that each has its name."""
    known = [(one, saved) for one in processes if (saved := one.saved_pct) is not None]
    if not known:
        return ()
    jobs = sum(len(one.compared) for one, _ in known)
    every = [job for one, _ in known for job in one.compared]
    weighted = sum(saved * len(one.compared) for one, saved in known) / jobs
    sums = _saved_of_sums(every)
    assert sums is not None, "there are compared jobs"
    return (
        NamedMean("mean of the processes, weighted by their compared jobs", weighted),
        NamedMean("plain mean of the processes", sum(saved for _, saved in known) / len(known)),
        NamedMean("summed times of all compared jobs", sums),
    )


def window_of(runs: Sequence[JobRun]) -> float | None:
    """Return the seconds from the first start to the last end of these runs; None where none of them ran."""
    ran = [(one.began_s, one.ended_s) for one in runs if one.began_s is not None and one.ended_s is not None]
    return max(end for _, end in ran) - min(start for start, _ in ran) if ran else None


def mean_seconds(runs: Sequence[JobRun]) -> float | None:
    """Return the mean time of the runs that succeeded; None where none did."""
    return _mean([one.seconds for one in runs if one.end is JobEnd.SUCCEEDED and one.seconds is not None])


def by_key(runs: Sequence[JobRun]) -> dict[str, list[JobRun]]:
    """Return the runs of each job."""
    found: dict[str, list[JobRun]] = {}
    for run in runs:
        found.setdefault(run.key, []).append(run)
    return found


def _process(
    process: ChainProcess, old: Mapping[str, Sequence[JobRun]], new: Mapping[str, Sequence[JobRun]]
) -> ComparedProcess:
    compared, left_out = list[ComparedJob](), list[LeftOutJob]()
    for job in process.jobs:
        one = _job(job, process.threshold_s, old.get(job.key, ()), new.get(job.key, ()))
        if isinstance(one, ComparedJob):
            compared.append(one)
        else:
            left_out.append(one)
    skipped = {one.key for one in left_out if one.is_skipped}
    references, _ = _windows(process, old, skipped)
    windows, incomplete = _windows(process, new, skipped)
    reference = _mean(references)
    share = 100 * sum(windows) / len(windows) / reference if windows and reference else None
    interval = _interval(windows, reference)
    if len(skipped) == len(process.jobs):
        standing, reason = Standing.NOT_RESOLVED, "every job of it is skipped"
    else:
        standing, reason = _standing(reference, windows, incomplete, interval)
    return ComparedProcess(
        process.name, len(process.jobs), process.threshold_s, tuple(compared), tuple(left_out),
        reference, tuple(windows), incomplete, share, interval, standing, reason,
    )  # fmt: skip


def _job(job: ChainJob, threshold_s: float, old: Sequence[JobRun], new: Sequence[JobRun]) -> ComparedJob | LeftOutJob:
    if job.skip:
        return LeftOutJob(job.key, job.skip, is_skipped=True)
    for side, runs in (("the reference", old), ("the new executions", new)):
        skipped = next((one for one in runs if one.end is JobEnd.SKIPPED), None)
        if skipped is not None:
            return LeftOutJob(job.key, skipped.reason or f"skipped in {side}, without a reason", is_skipped=True)
    before, after = mean_seconds(old), mean_seconds(new)
    if before is None or after is None:
        side, runs = ("the reference", old) if before is None else ("the new executions", new)
        ends = ", ".join(dict.fromkeys(one.end.value for one in runs))
        return LeftOutJob(job.key, f"{ends} in {side}" if ends else f"not in {side}")
    if before < threshold_s:
        told = f"{seconds_text(before)} in the reference, less than {seconds_text(threshold_s)}"
        return LeftOutJob(job.key, told, is_short=True)
    if before <= 0:
        return LeftOutJob(job.key, "it took no time in the reference", is_short=True)
    return ComparedJob(job.key, before, after)


def _windows(
    process: ChainProcess, runs: Mapping[str, Sequence[JobRun]], skipped: Collection[str]
) -> tuple[list[float], int]:
    """Return the windows of the executions that count, and how many do not; of jobs that no side skips."""
    by_execution: dict[int, list[JobRun]] = {}
    wanted = {job.key for job in process.jobs} - {*skipped}
    for key in wanted:
        for run in runs.get(key, ()):
            by_execution.setdefault(run.execution, []).append(run)
    windows, incomplete = list[float](), 0
    for _, some in sorted(by_execution.items()):
        good = {one.key for one in some if one.end is JobEnd.SUCCEEDED}
        window = window_of(some)
        if window is not None and wanted <= good:
            windows.append(window)
        else:
            incomplete += 1
    return windows, incomplete


def _interval(windows: Sequence[float], reference: float | None) -> Interval | None:
    """Return the ratio of the windows to the one of the reference, which is a bound and has no scatter of its own."""
    if len(windows) < 2 or not reference or min(windows) <= 0:
        return None
    from pgdyno.stats.paired import t_interval

    return t_interval([math.log(one / reference) for one in windows])


def _standing(
    reference: float | None, windows: Sequence[float], incomplete: int, interval: Interval | None
) -> tuple[Standing, str]:
    if reference is None:
        return Standing.NOT_RESOLVED, "the reference has no execution in which every job succeeded"
    if not windows and incomplete:
        return Standing.FAIL, f"in none of {plural(incomplete, 'execution')} did every job succeed"
    if len(windows) < WANTED:
        return Standing.NOT_RESOLVED, f"{plural(len(windows), 'execution')} of the {WANTED} that a verdict wants"
    if interval is None:
        return Standing.NOT_RESOLVED, "a window of 0 s: the times of one side are too coarse for it"
    if interval.hi <= 1:
        return Standing.PASS, "not longer than in the reference"
    if interval.lo > 1:
        return Standing.FAIL, "longer than in the reference"
    return Standing.NOT_RESOLVED, "the interval holds windows that are shorter and longer than the reference's"


def _saved_of_sums(jobs: Sequence[ComparedJob]) -> float | None:
    before = sum(one.reference_s for one in jobs)
    return 100 * (1 - sum(one.seconds for one in jobs) / before) if before else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
