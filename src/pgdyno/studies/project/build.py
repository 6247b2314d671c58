"""Read what the store holds of a project's scenarios: days, runs, figures of its studies, and peaks of their hosts."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pgdyno.model.project import FIGURES, RATIOS, ROW_METRICS, Criterion, Measured, Peak, Project, Scenario, row_metric
from pgdyno.model.results.migrate import SIDE
from pgdyno.model.results.parts import Compared
from pgdyno.model.samples import SampleValue
from pgdyno.model.study import Study
from pgdyno.model.trial import Outcome, Trial, TrialState
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.report.judgement import standing_text
from pgdyno.report.provenance import state_counts
from pgdyno.report.wording import number_text, sentence
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.project.certified import CERTIFIED, OF_RUNS, has_figures, of_newest
from pgdyno.studies.project.replays import REPLAY_FIGURES, ReplayRun, of_qualified, replay_runs
from pgdyno.studies.project.run_record import ProjectRunRecord, figures_of
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.store.catalogue import Store

PEAK_S = 10
"""A peak is the greatest mean of so many samples in a row, one a second: a single second says little."""
FULL = 0.95
"""Share of its cores from which on a machine counts as full: what it would have needed is then unknown."""


@dataclass(frozen=True, slots=True)
class StudyLine:
    """A study of a scenario: its finished runs, and what came of it in one sentence."""

    id: str
    kind: str
    runs: tuple[int, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Actual:
    """What was really done: calendar days and runs, None where nobody knows; `first` is when the first run began."""

    days: float | None
    runs: int | None
    source: str
    first: float | None = None


@dataclass(frozen=True, slots=True)
class ScenarioFacts:
    """What is known of one scenario."""

    actual: Actual
    measured: Measured | None
    studies: tuple[StudyLine, ...] = ()
    states: str = ""
    """How many runs there are of each state, where there are runs."""
    replays: tuple[ReplayRun, ...] = ()
    planned_s: float | None = None
    took_s: float | None = None
    """How long its run may take, and took; None where pgdyno did not run it."""


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What is known of a project: by scenario, and the peaks of every host."""

    scenarios: Mapping[str, ScenarioFacts]
    peaks: tuple[Peak, ...]
    store: str = ""
    runs: tuple[int, ...] = field(default=())
    edits: tuple[str, ...] = ()
    """Files of the run's plan that were edited after it had begun."""


def read_project(project: Project, store: Store | None, record: ProjectRunRecord | None = None) -> ProjectFacts:
    """Return what is known. Without a store only rows count; `record` has the figures that a run computed.

    Raises UsageError for a study that is not in the store.
    """
    found, peaks = {}, list(project.peaks)
    ids: list[int] = []
    for scenario in project.scenarios:
        pairs = [] if store is None else [_studied(store, name) for name in scenario.studies]
        known = scenario_facts(scenario, pairs, () if record is None else record.references(scenario.name))
        computed = figures_of(record, scenario.name).get(scenario.criterion.metric)
        known = known if computed is None else replace(known, measured=computed)
        if record is not None and (took := record.took_s(scenario.name)) is not None:
            known = replace(known, planned_s=record.planned.get(scenario.name), took_s=took)
        found[scenario.name] = known
        for study, trials in pairs:
            ids += [trial.id for trial in trials]
            if store is not None and (peak := peak_of(store, study, trials)) is not None:
                peaks.append(peak)
    return ProjectFacts(found, tuple(peaks), "" if store is None else store.name, tuple(sorted(set(ids))),
                        () if record is None else record.edits)  # fmt: skip


def _studied(store: Store, name: str) -> tuple[Study, list[Trial]]:
    study = store.study(name)
    return study, [trial for trial in store.trials(study.id) if trial.outcome is not None]


def scenario_facts(
    scenario: Scenario, pairs: Sequence[tuple[Study, Sequence[Trial]]], references: Container[str] = ()
) -> ScenarioFacts:
    """Return what rows and studies say of a scenario; `references` are replays of the side that it is held against."""
    trials = [trial for _, some in pairs for trial in some]
    lines = tuple(
        StudyLine(study.id, study.kind.value, tuple(trial.id for trial in some), _came_of(study, some))
        for study, some in pairs
    )
    replays = replay_runs((study for study, _ in pairs), references)
    return ScenarioFacts(
        _actual(scenario, trials, replays, sum(_runs(some) for _, some in pairs)),
        measure(scenario, pairs, replays),
        lines,
        states_text(trials) if trials else "",
        replays,
    )


def _runs(trials: Sequence[Trial]) -> int:
    """Count the runs of a study; a rehearsal is one, though both of its sides are sampled as a run each."""
    return 1 if any(SIDE in trial.spec.factors for trial in trials) else len(trials)


def _actual(scenario: Scenario, trials: Sequence[Trial], replays: Sequence[ReplayRun], runs: int) -> Actual:
    """Count from the store where it holds the runs; what the file states is for what was done elsewhere."""
    times = [trial.outcome.began_at for trial in trials if trial.outcome is not None and trial.outcome.began_at]
    times = sorted([*times, *(run.began_at for run in replays)])
    if not times:
        source = "stated in the file" if scenario.days is not None or scenario.runs is not None else "not recorded"
        return Actual(scenario.days, scenario.runs, source)
    first, last = (datetime.fromtimestamp(at, UTC).date() for at in (times[0], times[-1]))
    return Actual(float((last - first).days + 1), runs + len(replays), f"the store, {first} to {last}", times[0])


def measure(
    scenario: Scenario, pairs: Sequence[tuple[Study, Sequence[Trial]]], replays: Sequence[ReplayRun]
) -> Measured | None:
    """Return the figure that the criterion names, None when nothing was measured of it."""
    criterion = scenario.criterion
    if criterion.metric in ROW_METRICS:
        return row_metric(scenario.rows, criterion.metric)
    if criterion.metric in REPLAY_FIGURES:
        return of_qualified(criterion, replays)
    if criterion.metric in OF_RUNS:
        return None  # of two sides that are held against each other: a run's record has it
    if criterion.metric in CERTIFIED:
        return of_newest(criterion.metric, [study for study, _ in pairs])
    if criterion.metric in RATIOS:
        return _ratio(RATIOS[criterion.metric], pairs)
    return _of_runs(criterion, [trial for _, some in pairs for trial in some])


def _ratio(metric: Metric, pairs: Sequence[tuple[Study, Sequence[Trial]]]) -> Measured | None:
    verdicts = [(study, one) for study, _ in pairs for one in _verdicts(study) if one.metric is metric]
    if not verdicts:
        return None
    study, last = verdicts[-1]
    low, high = (
        min(one.interval.lo for _, one in verdicts),
        max(one.interval.hi for _, one in verdicts),
    )
    names = kind_of(study.kind).sides
    how = f"{names.subject} over {names.reference}, {plural(last.pairs, 'interleaved pair')}"
    more = f", range of {plural(len(verdicts), 'study')}" if len(verdicts) > 1 else ""
    return Measured(last.interval.ratio, low, high, how + more)


def _verdicts(study: Study) -> Iterator[Verdict]:
    result = study.told(Compared)
    found = () if result is None else (result.verdict, *result.others)
    yield from (one for one in found if one is not None and one.interval.is_closed)


def _of_runs(criterion: Criterion, trials: Sequence[Trial]) -> Measured | None:
    """Return the range of all usable runs: every one has to keep the criterion. Percentiles are not averaged."""

    def read(outcome: Outcome) -> float | None:
        metric = FIGURES.get(criterion.metric)
        return outcome.counters.get(criterion.metric) if metric is None else outcome.figure(metric)

    found = [
        (value, trial.id)
        for trial in trials
        if trial.state is TrialState.COMPLETE
        and trial.outcome is not None
        and (not criterion.arm or trial.spec.arm == criterion.arm)
        and (value := read(trial.outcome)) is not None
    ]
    if not found:
        return None
    values = [value for value, _ in found]
    shown = min(values) if criterion.at_least is not None else max(values)
    word = "lowest" if criterion.at_least is not None else "highest"
    which = plural(len(values), "usable run")
    return Measured(shown, min(values), max(values), f"the {word} of {which}", tuple(run for _, run in found))


def _came_of(study: Study, trials: Sequence[Trial]) -> str:
    verdict = next(_verdicts(study), None)
    if verdict is not None:
        names = kind_of(study.kind).sides
        return sentence(verdict, names.subject, names.reference)
    told = kind_of(study.kind).judged(study)
    if told is not None and (not trials or has_figures(study)):
        return told.title
    usable = [trial.outcome for trial in trials if trial.state is TrialState.COMPLETE]
    known = [one.throughput for one in usable if one is not None and one.throughput]
    if not known:
        return f"no usable run ({states_text(trials)}); {standing_text(study)}"
    return f"{number_text(min(known))} to {plural(number_text(max(known)), 'transaction')}/s, no comparison"


def states_text(trials: Sequence[Trial]) -> str:
    """Write how many runs there are of each state: `2 disturbed, 1 unsteady`."""
    return ", ".join(f"{count} {state.value}" for state, count in state_counts(trials).items()) or "none was made"


def peak_of(store: Store, study: Study, trials: Sequence[Trial]) -> Peak | None:
    """Return the greatest need of all runs of a study, None when no run was sampled."""
    cores, memory, run, is_full = 0.0, 0.0, 0, False
    for trial in trials:
        samples = store.samples(trial.id, "cpu")
        busy, needed = busy_cores(samples), greatest_mean(server_cores(samples))
        known = [float(count) for count in samples.get("cpus", ()) if isinstance(count, int | float)]
        is_full = is_full or (bool(known) and greatest_mean(busy) >= FULL * max(known))
        if needed > cores:
            cores, run = needed, trial.id
        memory = max(memory, greatest_mean(used_bytes(store.samples(trial.id, "memory"))))
    if not cores and not memory:
        return None
    source = f"study {study.id}, run {run}" if run else f"study {study.id}"
    full = "; the machine was full, the need may be greater" if is_full else ""
    return Peak(study.target, cores or None, memory or None, source + full)


def busy_cores(samples: Mapping[str, Sequence[SampleValue]]) -> list[float]:
    """Return the cores that were busy in each sample, whoever used them: all but idle and waiting for a disk."""
    columns = (samples.get(name, ()) for name in ("cpus", "idle_pct", "iowait_pct"))
    return [
        float(cpus) * (100.0 - float(idle) - float(wait or 0.0)) / 100.0
        for cpus, idle, wait in zip(*columns, strict=False)
        if isinstance(cpus, int | float) and isinstance(idle, int | float) and not isinstance(wait, str)
    ]


def server_cores(samples: Mapping[str, Sequence[SampleValue]]) -> list[float]:
    """Return the cores that the server's processes used; where nobody counted those, all busy cores."""
    used = [float(share) / 100.0 for share in samples.get("server_cpu_pct", ()) if isinstance(share, int | float)]
    return used or busy_cores(samples)


def used_bytes(samples: Mapping[str, Sequence[SampleValue]]) -> list[float]:
    """Return the memory that others could not have had: total less available."""
    columns = (samples.get(name, ()) for name in ("total_bytes", "available_bytes"))
    return [
        float(total) - float(available)
        for total, available in zip(*columns, strict=False)
        if isinstance(total, int | float) and isinstance(available, int | float)
    ]


def greatest_mean(values: Sequence[float], width: int = PEAK_S) -> float:
    """Return the greatest mean of so many values in a row, of all of them when they are fewer; 0 without values."""
    if len(values) <= width:
        return sum(values) / len(values) if values else 0.0
    return max(sum(values[at : at + width]) / width for at in range(len(values) - width + 1))
