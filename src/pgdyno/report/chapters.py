"""The sections of a report, one function each; None when the study has nothing to say under that heading. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Table
from pgdyno.model.study import Study
from pgdyno.model.trial import BY_HAND, Trial
from pgdyno.model.verdict import LATENCIES, Metric
from pgdyno.report import provenance
from pgdyno.report.recorder import align, recorder, without_quiet
from pgdyno.report.sections import Block, Prose, Section, Strips, TableBlock
from pgdyno.report.traces import RunTrace
from pgdyno.report.wording import (
    ROLE_NAMES,
    number_text,
    rounded_text,
    settings_text,
)
from pgdyno.units import plural, seconds_text

MOST_EVENTS = 100
"""So many events of a run are listed; the store has them all."""
ORDER = (
    "Runs are interleaved in blocks, and the order within each block is random, so that drift of the machine "
    "affects both sides alike."
)
BY_PEOPLE = (
    "Steps that people do by hand are the exception: their order cannot be random, so that drift of the machine "
    "between the runs before and those after can look like their effect."
)
RULE = (
    "The verdict is a rule on the confidence interval of the ratio, which may be looked at after every pair without "
    "losing its error rate. Its words are better, worse, equivalent and not resolved; nobody chooses them by hand."
)
COUNTED = (
    "A run counts from the second at which its throughput became steady. Percentiles come from merged histograms and "
    "are never averaged. Runs that other programs disturbed are repeated, not corrected."
)


def flight(traces: Sequence[RunTrace]) -> Section | None:
    """Show the flight recorder of the runs, side by side on common axes."""
    drawn = [(trace, strips) for trace in traces if (strips := recorder(trace))]
    loud, quiet = without_quiet([strips for _, strips in drawn])
    recorded = [(trace, strips) for (trace, _), strips in zip(drawn, loud, strict=True) if strips]
    if not recorded:
        return None
    columns = tuple(f"{trace.name}, trial {trace.run}" for trace, _ in recorded)
    shown = "One run" if len(recorded) == 1 else "Two runs, on the same axes"
    each = max(trace.bin_s for trace, _ in recorded)
    said = [f"{shown}, {'second by second' if each == 1 else f'each point over {seconds_text(each)}'}."]
    if any(trace.steady_from != trace.began_at for trace, _ in recorded):
        said.append("The shaded part is warm-up and does not count.")
    if any(any(mark.axis == "x" for mark in figure.marks) for _, strips in recorded for figure in strips):
        said.append(
            "Dashed vertical lines are checkpoints, dotted ones autovacuum, solid ones restarts, reloads and swapping."
        )
    if quiet:
        said.append(f"Not drawn, because next to nothing happened: {', '.join(quiet)}.")
    note = Prose((" ".join(said),))
    blocks: list[Block] = [note, Strips(columns, align([strips for _, strips in recorded]))]
    events = _event_rows([trace for trace, _ in recorded])
    if events:
        table = Table(("trial", "second", "event", "what"), events, ("trial", "second"))
        blocks.append(TableBlock(table, f"What happened: {plural(len(events), 'event')}.", folded=True))
    return Section("recorder", "Flight recorder", "What did the machine do during a run?", tuple(blocks))


def _event_rows(traces: Sequence[RunTrace]) -> tuple[tuple[str, str, str, str], ...]:
    return tuple(
        (str(trace.run), f"{event.t - trace.began_at:.0f}", event.kind.replace("_", " "), event.text)
        for trace in traces
        for event in trace.events[:MOST_EVENTS]
        if trace.began_at <= event.t <= trace.ended_at
    )


def about(
    study: Study, trials: Sequence[Trial], method: Sequence[str] | None = None, *, first: Sequence[Block] = ()
) -> Section:
    """Tell the environment, the workload and the method, by default that of pairs; list every trial.

    `method` are sentences, None for the default; with a single trial in `trials`, method and list are left out. Where
    others made the runs of `study`, nothing is told of how. The blocks in `first` stand before the rest.
    """
    blocks: list[Block] = [*first, provenance.environment(study, trials), provenance.workload(study, trials)]
    if len(trials) > 1:
        told = () if study.was_read else tuple(paired(trials) if method is None else method)
        if told:
            blocks.append(Prose(told, points=True))
        blocks.append(TableBlock(_trials_table(study, trials), f"All {plural(len(trials), 'trial')}.", folded=True))
    return Section("about", "Environment and method", "What exactly was measured, where and how?", tuple(blocks))


def paired(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return how runs that are compared were ordered, judged and counted."""
    people = (BY_PEOPLE,) if any(BY_HAND in trial.spec.factors for trial in trials) else ()
    return (ORDER, *people, RULE, COUNTED)


def _trials_table(study: Study, trials: Sequence[Trial]) -> Table:
    latency = study.metric if study.metric in LATENCIES else Metric.LATENCY_P99
    columns = (
        "trial",
        "role",
        "state",
        "throughput, tps",
        f"{latency.short}, ms",
        "CPU ms/tx",
        "foreign CPU, % of a core",
        "settings",
    )
    rows = []
    for trial in trials:
        outcome = trial.outcome
        rows.append(
            (
                str(trial.id),
                ROLE_NAMES[trial.spec.role],
                trial.state.value,
                rounded_text(outcome.throughput if outcome else None),
                rounded_text(outcome.figure(latency) if outcome else None),
                ""
                if outcome is None or outcome.server_cpu_ms_per_tx is None
                else number_text(outcome.server_cpu_ms_per_tx),
                rounded_text(outcome.foreign_cpu_pct if outcome else None),
                # What a file of others sets nobody looked up: that is not a server as it was found.
                settings_text(trial.spec.configuration)
                if trial.spec.configuration or not study.was_read
                else "unknown",
            )
        )
    return Table(columns, tuple(rows), columns[3:7] + columns[:1])
