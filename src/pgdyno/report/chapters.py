"""The sections of a report, one function each; None when the study has nothing to say under that heading. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.model.figure import Figure, Table
from pgdyno.model.results.ab import AbResult
from pgdyno.model.results.tune import Effect, Retained, TuneResult
from pgdyno.model.study import Study, StudyKind
from pgdyno.model.trial import BY_HAND, Trial
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.report import figures, provenance
from pgdyno.report.judgement import together_text
from pgdyno.report.neighbours import phases, trial_points
from pgdyno.report.recorder import align, recorder, without_quiet
from pgdyno.report.sections import Block, Charts, FactList, Prose, Section, Snippet, Strips, TableBlock
from pgdyno.report.traces import RunTrace
from pgdyno.report.wording import (
    CONTEXT_MEANINGS,
    DURABILITY_MEANINGS,
    ROLE_NAMES,
    change_text,
    difference_text,
    latency_text,
    number_text,
    plural,
    quantity_text,
    range_text,
    rounded_text,
    sentence,
    settings_text,
    share_text,
)
from pgdyno.units import bytes_text, parse_quantity, seconds_text

BLOCK_BYTES = 8192
"""The unit of a shared_buffers without one; every build of PostgreSQL but a patched one has it."""
MOST_EVENTS = 100
"""So many events of a run are listed; the store has them all."""
ORDER = (
    "Runs are interleaved in blocks, and the order inside each block is drawn by lot, so that drift of the machine "
    "hits both sides alike."
)
BY_PEOPLE = (
    "What people do by hand is the exception: its order cannot be drawn by lot, so that a drift of the machine between "
    "the runs before and those after can look like its effect."
)
RULE = (
    "The verdict is a rule on the confidence interval of the ratio, which may be looked at after every pair without "
    "losing its error rate. Its words are better, worse, equivalent and not resolved; nobody chooses them by hand."
)
COUNTED = (
    "A run counts from the second at which its throughput became steady. Percentiles come from merged histograms and "
    "are never averaged. Runs that other programs disturbed are repeated, not corrected."
)
SEARCHED = (
    "What a search found is confirmed by fresh runs before it is believed. Settings of which next to nothing is "
    "expected are left out, and all that was found runs beside the rest, to tell whether they are missed."
)
UNMEASURED = ("not measured alone", "")
"""What stands for the effect of a setting that the proof had no time to leave out."""
ONE_SIDE = (StudyKind.BENCH, StudyKind.NOISE)
"""Kinds whose runs are not compared: they have no order to draw and no verdict."""


def change(result: TuneResult, verdict: Verdict | None, data_bytes: float | None) -> Section | None:
    """Say what to change, what each change is worth, and how to undo it; or that nothing is to be changed."""
    question = "Which settings, what is each one worth, how do I undo it?"
    settings, retained = winner_of(result), result.retained
    if result.keep:
        return Section("change", "What to change", question, keep_blocks(result, verdict))
    if not settings:
        return None
    said = (need_text(len(settings), retained), size_text(settings, data_bytes), unpruned_text(result, settings))
    blocks: list[Block] = [Prose(tuple(text for text in said if text))]
    effects = [one for one in retained if isinstance(one, Effect)]
    if retained:
        alone = "The only setting: its effect is that of the whole change."
        each = "Each effect is that of the winner against the winner without it." if effects else ""
        blocks.append(TableBlock(effects_table(retained), alone if len(settings) == 1 else each))
        blocks.append(Prose(tuple(f"{one.knob}: {one.why}" for one in retained if one.why), points=True))
    if len(effects) > 1:
        smallest = verdict.smallest_effect if verdict else 0.0
        blocks.append(Charts((figures.forest(effects, smallest_effect=smallest, total=verdict),)))
    blocks += snippets(result, settings)
    blocks.append(Snippet("Put it in force, with the way back", f"pgdyno apply --study {result.study}"))
    undo = result.undo or "Remove these lines again, then restart or reload PostgreSQL."
    blocks.append(Snippet("Undo", undo))
    return Section("change", "What to change", question, tuple(blocks))


def winner_of(result: TuneResult) -> Configuration:
    """Return the settings of the winner, or of the best candidate where the configuration stays."""
    return Configuration.of({} if result.winner is None else result.winner.settings)


def snippets(result: TuneResult, settings: Configuration) -> tuple[Block, ...]:
    """Return what is to be copied: lines for the server, and for the host where Linux knobs are among them."""
    server = result.fragment or settings.postgresql().fragment()
    host = "".join(f"{name} = {value}\n" for name, value in settings.linux().items())
    found = (("Lines for postgresql.conf", server), ("For the host: pgdyno persist makes the files", host))
    return tuple(Snippet(title, text) for title, text in found if text)


def keep_blocks(result: TuneResult, verdict: Verdict | None) -> tuple[Block, ...]:
    """Say that the configuration stays, and name the best candidate, which did not prove better."""
    if verdict is None:
        return (Prose(("Nothing: no configuration but the baseline was measured, so nothing is known of any other.",)),)
    best = result.best
    said = ["Nothing: keep your configuration. None that was tried proved better."]
    together = result.together
    if together is not None and result.is_only_together:
        said = [f"Nothing: keep your configuration. {together_text(result)}; a longer tune may tell which matter."]
        said.append(f"{sentence(together, 'all that was found', 'the baseline')}.")
    said.append(f"{sentence(verdict, 'the best candidate', 'the baseline')}.")
    if not best:
        return (Prose(tuple(said)),)
    said.append(
        f"The best candidate changed {plural(len(best), 'setting')}. Do not apply it: it is listed for the record."
    )
    rows = tuple(best.items())
    return (Prose(tuple(said)), TableBlock(Table(("setting", "value"), rows), "The best candidate.", folded=True))


def need_text(count: int, retained: Sequence[Retained]) -> str:
    """Say how many settings change and what the change interrupts; nothing of that where one is not listed."""
    contexts = {one.context for one in retained}
    if "postmaster" in contexts:
        need = "PostgreSQL has to be restarted once."
    elif len(retained) < count:
        need = "Whether they need a restart was not kept: pg_settings.context says it."
    elif contexts == {"kernel"}:
        need = "No restart and no reload: the kernel takes them while PostgreSQL runs, and keeps them until it boots."
    elif contexts & {"backend", "superuser-backend"}:
        need = "A reload is enough; sessions that are open keep what they have."
    else:
        need = "A reload is enough; nobody is disconnected."
    unmeasured = sum(not isinstance(one, Effect) for one in retained)
    alone = f" {unmeasured} of them {'was' if unmeasured == 1 else 'were'} not measured alone and may do nothing."
    return f"{plural(count, 'setting')} to change. {need}{alone if unmeasured else ''}"


def size_text(settings: Configuration, data_bytes: float | None) -> str:
    """Tell a new shared_buffers against the size of the data; empty when one of them is not known."""
    if "shared_buffers" not in settings or not data_bytes:
        return ""
    buffers = parse_quantity(settings["shared_buffers"], "8kB") * BLOCK_BYTES
    told = f"shared_buffers of {bytes_text(buffers)} against {bytes_text(data_bytes)} of data: "
    if buffers >= data_bytes:
        return f"{told}all of it fits. With more data, size it by the part that is in use."
    return f"{told}{number_text(buffers / data_bytes * 100)} % of it fits."


def unpruned_text(result: TuneResult, settings: Mapping[str, str]) -> str:
    """Say what leaving out the other settings of the search's best configuration cost."""
    verdict, best, taken_back = result.unpruned, result.search.best, result.taken_back
    fewer = taken_back or settings
    if verdict is None or not verdict.interval.is_closed or len(best) <= len(fewer):
        return ""
    kept = (
        f"{next(iter(fewer))} alone"
        if len(fewer) == 1
        else f"the {len(fewer)} that {'pruning left' if taken_back else 'stayed'}"
    )
    said = (
        f"The search's best configuration had {plural(len(best), 'setting')}. With {kept}, "
        f"{verdict.metric.label} is {share_text(verdict.interval)} of that with all {len(best)}: "
    )
    return f"{said}{'so all stay.' if taken_back else difference_text(verdict.interval, verdict.metric) + '.'}"


def effects_table(retained: Sequence[Retained]) -> Table:
    """Write the retained settings as a table in their order: what was measured first, the largest effect on top."""
    rows = tuple(
        (
            one.knob,
            one.before,
            one.after,
            *((change_text(one.interval.ratio), range_text(one.interval)) if isinstance(one, Effect) else UNMEASURED),
            CONTEXT_MEANINGS.get(one.context, one.context),
            DURABILITY_MEANINGS.get(one.durability, one.durability or "unknown"),
        )
        for one in retained
    )
    columns = ("setting", "from", "to", "effect", "interval", "needs", "durability class")
    return Table(columns, rows, ("effect", "interval"))


def arms(result: AbResult) -> Section:
    """Say in which settings the two arms of an A/B experiment differ."""
    a, b = ({} if side is None else side.settings for side in (result.baseline, result.winner))
    names = sorted({name for name in (*a, *b) if a.get(name) != b.get(name)})
    rows = tuple((name, a.get(name, "as found"), b.get(name, "as found")) for name in names)
    table = TableBlock(Table(("setting", "A", "B"), rows), f"A and B differ in {plural(len(names), 'setting')}.")
    same = Prose(("Both arms have the same settings: an A/A experiment, which ought to show no difference.",))
    return Section("change", "What is compared", "In which settings do A and B differ?", (table if rows else same,))


def own_settings(trials: Sequence[Trial]) -> Section | None:
    """List what a bench set before it measured; None where it measured the server as it was."""
    settings = trials[-1].spec.configuration if trials else Configuration.of({})
    if not settings:
        return None
    rows = tuple((name, value) for name, value in settings.items())
    table = TableBlock(Table(("setting", "value"), rows), "Set for these runs, and taken back after them.")
    return Section("change", "What was set", "With which settings was it measured?", (table,))


def explanation(result: TuneResult) -> Section | None:
    """Give the sentences that say why the change works, with the measured numbers in them."""
    sentences = result.explanation
    if not sentences:
        return None
    title = "What the best candidate did" if result.keep else "Why it works"
    return Section("why", title, "What did the server do differently?", (Prose(sentences, points=True),))


def search(trials: Sequence[Trial], metric: Metric, result: TuneResult | None) -> Section | None:
    """Show every trial of the search in order."""
    if len(trials) < 2:
        return None
    points = trial_points(trials, metric)
    figure = figures.history(points, pair_sd=result.noise_floor.pair_sd if result else None, phases=phases(points))
    blocks: list[Block] = [Charts((figure,))]
    if result is not None and (stopped := result.search.stopped):
        early = result.search.ended_early
        cut = f" {plural(early, 'hopeless trial')} ended at half of the window." if early else ""
        blocks.insert(0, Prose((f"The search ended: {stopped}.{cut}",)))
    return Section("search", "The search", "How did it come to this configuration?", tuple(blocks))


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
    if any(_has_events(figure) for _, strips in recorded for figure in strips):
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


def _has_events(figure: Figure) -> bool:
    return any(mark.axis == "x" for mark in figure.marks)


def _event_rows(traces: Sequence[RunTrace]) -> tuple[tuple[str, str, str, str], ...]:
    return tuple(
        (str(trace.run), f"{event.t - trace.began_at:.0f}", event.kind.replace("_", " "), event.text)
        for trace in traces
        for event in trace.events[:MOST_EVENTS]
        if trace.began_at <= event.t <= trace.ended_at
    )


def about(study: Study, trials: Sequence[Trial], method: tuple[str, ...] | None = None) -> Section:
    """Tell the environment, the workload and the method, by default that of the study's kind; list every trial."""
    blocks: list[Block] = [provenance.environment(study, trials), provenance.workload(study, trials)]
    if study.kind is StudyKind.BENCH and trials and trials[-1].outcome is not None:
        blocks.insert(0, run_facts(trials[-1]))
    if len(trials) > 1:
        told = _method(study, trials) if method is None else method
        if told:
            blocks.append(Prose(told, points=True))
        blocks.append(
            TableBlock(_trials_table(trials, study.was_read), f"All {plural(len(trials), 'trial')}.", folded=True)
        )
    return Section("about", "Environment and method", "What exactly was measured, where and how?", tuple(blocks))


def _method(study: Study, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return how runs of this study were ordered, judged and counted; nothing of runs that others made."""
    if study.was_read:
        return ()
    if study.kind in ONE_SIDE:
        return (COUNTED,)
    people = (BY_PEOPLE,) if any(BY_HAND in trial.spec.factors for trial in trials) else ()
    return (ORDER, *people, RULE, COUNTED, *((SEARCHED,) if study.kind is StudyKind.TUNE else ()))


def run_facts(trial: Trial) -> FactList:
    """Return what one finished run counted; the trial must have an outcome."""
    outcome = trial.outcome
    assert outcome is not None, "only a finished trial has facts"
    rows = (
        ("transactions", f"{outcome.transactions:,} done, {outcome.failed:,} failed, {outcome.retried:,} retried"),
        ("latency", latency_text(outcome.latency_ms)),
        ("skipped by the schedule", f"{outcome.skipped:,}" if outcome.skipped else ""),
        ("CPU of the server", quantity_text(outcome.server_cpu_s, "s")),
        ("CPU of the load's driver", quantity_text(outcome.driver_cpu_s, "s")),
        ("foreign CPU", quantity_text(outcome.foreign_cpu_pct, "% of one core")),
    )
    return FactList(tuple((name, value) for name, value in rows if value))


def _trials_table(trials: Sequence[Trial], was_read: bool) -> Table:
    columns = (
        "trial",
        "role",
        "state",
        "throughput, tps",
        "p99, ms",
        "CPU ms/tx",
        "foreign CPU, % of a core",
        "settings",
    )
    rows = []
    for trial in trials:
        outcome = trial.outcome
        p99 = outcome.latency_ms.p99 if outcome and outcome.latency_ms else None
        rows.append(
            (
                str(trial.id),
                ROLE_NAMES[trial.spec.role],
                trial.state.value,
                rounded_text(outcome.throughput if outcome else None),
                rounded_text(p99),
                ""
                if outcome is None or outcome.server_cpu_ms_per_tx is None
                else number_text(outcome.server_cpu_ms_per_tx),
                rounded_text(outcome.foreign_cpu_pct if outcome else None),
                # What a file of others sets nobody looked up: that is not a server as it was found.
                settings_text(trial.spec.configuration) if trial.spec.configuration or not was_read else "unknown",
            )
        )
    return Table(columns, tuple(rows), columns[3:7] + columns[:1])
