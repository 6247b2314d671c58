"""Replays of a scenario: each study is a run, and the last one that counts is the qualified run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pgdyno.model.figure import Table
from pgdyno.model.project import Criterion, Measured
from pgdyno.model.results.replay import ReplayResult
from pgdyno.model.study import Study
from pgdyno.studies.replay.words import STEPS, UNLIKE
from pgdyno.units import plural, seconds_text

REFERENCE = "of the reference"
"""What is said of a run that counts and says nothing of the platform that is judged."""


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """A replay that came to a result. `said` is why it does not count, empty where it does."""

    study: str
    began_at: float
    result: ReplayResult
    said: str = ""


REPLAY_FIGURES: Mapping[str, Callable[[ReplayResult], float | None]] = {
    "replay_unlike_pct": lambda run: 100 * sum(run.answers[one] for one in UNLIKE) / (sum(run.answers.values()) or 1),
    "replay_p50_ms": lambda run: run.response_ms.get("p50"),
    "replay_p95_ms": lambda run: run.response_ms.get("p95"),
    "replay_p99_ms": lambda run: run.response_ms.get("p99"),
}
"""Answers unlike the captured ones in per cent, and response times from the due moment."""


def replay_runs(studies: Iterable[Study], references: Container[str] = ()) -> tuple[ReplayRun, ...]:
    """Return the replays among these studies, oldest first. Those of the reference's side qualify for nothing."""
    found = [
        ReplayRun(
            study.id,
            study.created_at,
            result,
            why_void(result) if not result.is_valid else REFERENCE if study.id in references else "",
        )
        for study in studies
        if (result := study.told(ReplayResult)) is not None
    ]
    return tuple(sorted(found, key=lambda run: run.began_at))


def why_void(result: ReplayResult) -> str:
    """Return why a run does not count."""
    return f"ended early: {result.ended}" if result.ended != "complete" else "; ".join(result.fidelity.invalid)


def qualified(runs: Sequence[ReplayRun]) -> ReplayRun | None:
    """Return the run that stands for its scenario, None where no run counts."""
    return next((run for run in reversed(runs) if not run.said), None)


def of_qualified(criterion: Criterion, runs: Sequence[ReplayRun]) -> Measured | None:
    """Return what the criterion names of the qualified run."""
    run = qualified(runs)
    value = None if run is None else REPLAY_FIGURES[criterion.metric](run.result)
    if run is None or value is None:
        return None
    return Measured(value, value, value, f"study {run.study}, the qualified run of {plural(len(runs), 'replay')}")


def qualified_facts(runs: Sequence[ReplayRun]) -> tuple[tuple[str, str], ...]:
    """Return what a certification asks of its qualified run beside a figure: the errors accepted, and its steps."""
    run = qualified(runs)
    if run is None:
        return ()
    taken = run.result.phases
    steps = ", ".join(f"{name} {seconds_text(taken[name])}" for name in STEPS if name in taken)
    return (
        ("qualified run", run.study),
        (
            "answers unlike the captured ones",
            f"at most {run.result.fidelity.limits.error_percent:g} %, fixed before it",
        ),
        *((("its steps", steps),) if steps else ()),
    )


def qualified_warnings(runs: Sequence[ReplayRun]) -> tuple[str, ...]:
    """Return what is said against the qualified run, such as that it is too small for a certification."""
    run = qualified(runs)
    return () if run is None else tuple(f"Study {run.study}: {text}" for text in run.result.fidelity.warnings)


def replays_table(runs: Sequence[ReplayRun]) -> Table:
    """Return the runs as rows, with the one that is qualified, and why others do not count."""
    stands, unlike = qualified(runs), REPLAY_FIGURES["replay_unlike_pct"]
    figures = ("level", "statements", "unlike", "p99 ms")
    rows = []
    for number, run in enumerate(runs, 1):
        p99, began = run.result.response_ms.get("p99"), datetime.fromtimestamp(run.began_at, UTC)
        told = (f"{run.result.level:.0f} %", f"{run.result.fidelity.sent:,}", f"{unlike(run.result):.2f} %")
        p99_text = "unknown" if p99 is None else f"{p99:.2f}"
        counts = run.said or ("qualified" if run is stands else "yes")
        rows.append((str(number), run.study, f"{began:%Y-%m-%d %H:%M}", *told, p99_text, counts))
    return Table(("run", "study", "began", *figures, "counts"), tuple(rows), figures)
