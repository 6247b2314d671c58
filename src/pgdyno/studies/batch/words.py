"""What a batch chain came to, in words. Pure."""

from __future__ import annotations

from pgdyno.errors import ExitCode
from pgdyno.model.results.batch import BatchResult, JobEnd
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.studies.batch.comparing import WANTED, BatchComparison, ComparedProcess, Standing
from pgdyno.units import plural, seconds_text

EXIT_CODES = {
    Standing.PASS: ExitCode.OK,
    Standing.FAIL: ExitCode.FINDINGS,
    Standing.NOT_RESOLVED: ExitCode.NOT_RESOLVED,
}
"""What a comparison ends with."""
TONES = {Standing.PASS: Tone.GOOD, Standing.FAIL: Tone.BAD, Standing.NOT_RESOLVED: Tone.UNSURE}


def judgement(result: BatchResult) -> Judgement:
    """Return whether every job of every execution succeeded."""
    executions = plural(len(result.executions), "execution")
    told = ends_text(result)
    if result.exit_code is not ExitCode.OK:
        good = result.jobs and not result.unsuccessful
        all_of = f"every job succeeded in {executions}, and not all were made"
        said = all_of if good else f"not every job succeeded in {executions}"
        title = f"{result.chain}: {said}: {told or 'none was run'}"
        if result.ended:
            title += f"; ended: {result.ended}"
        alert = f"jobs of batch chain {result.chain} did not succeed: {told}" if result.unsuccessful else ""
        return Judgement(title, "findings", Tone.BAD, told or title, result.exit_code, alert)
    return Judgement(f"{result.chain}: every job succeeded in {executions}: {told}", "successful", Tone.GOOD, told)


def ends_text(result: BatchResult) -> str:
    """Count the jobs of all executions by how they ended."""
    counts = {end: sum(one.end is end for one in result.jobs) for end in JobEnd}
    return ", ".join(f"{count} {end.value}" for end, count in counts.items() if count)


def few_text(result: BatchResult) -> str:
    """Say that there are fewer executions than a verdict wants; empty where there are enough."""
    count = len(result.executions)
    return "" if count >= WANTED else f"{plural(count, 'execution')} only: a verdict on the window needs {WANTED}."


def window_sentence(one: ComparedProcess) -> str:
    """Return what a process's window is against the reference."""
    share = ""
    if one.share_pct is not None:
        span = ""
        if one.interval is not None:
            span = f" [{100 * one.interval.lo:.1f}, {100 * one.interval.hi:.1f}]"
        share = f", done in {one.share_pct:.1f} %{span} of the reference's window"
    broken = f"; {plural(one.incomplete, 'execution')} with jobs that did not succeed" if one.incomplete else ""
    return f"{one.name}: {one.standing.value}{share} ({one.reason}{broken})."


def means_sentences(found: BatchComparison) -> tuple[str, ...]:
    """Return the overall improvement by each mean, under its name."""
    return tuple(f"Overall improvement, {one.name}: {one.saved_pct:.1f} %." for one in found.means)


def footnotes(found: BatchComparison) -> tuple[str, ...]:
    """Say which processes leave out short jobs."""
    return tuple(
        f"* {one.name}: only jobs that took {seconds_text(one.threshold_s)} or longer in the reference are compared; "
        f"{plural(sum(left.is_short for left in one.left_out), 'shorter job')} left out."
        for one in found.processes
        if one.threshold_s
    )


def title_of(found: BatchComparison) -> str:
    """Return the headline of a comparison."""
    counts = {word: sum(one.standing is word for one in found.processes) for word in Standing}
    told = ", ".join(f"{count} {word.value}" for word, count in counts.items() if count)
    return f"{found.chain}: {told} of {plural(len(found.processes), 'process')}"
