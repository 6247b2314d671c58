"""The sections that say how far the verdict may be trusted: the pairs, the noise, and what did not work. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.model.figure import Table
from pgdyno.model.trial import Role, Trial, TrialState
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.report import circumstances, figures
from pgdyno.report.neighbours import metric_value, trial_points
from pgdyno.report.reading import Fields, PairReading, pairs_of, verdict_of, verdicts_of
from pgdyno.report.sections import Block, Charts, FactList, Notice, Section, TableBlock
from pgdyno.report.wording import STATE_MEANINGS, plural, settings_text


def confidence(
    trials: Sequence[Trial], result: Fields, verdict: Verdict | None, subject: str, reference: str
) -> Section | None:
    """Show the pairs behind the verdict, the noise floor, and the runs that were not used."""
    blocks: list[Block] = []
    warnings = (*result.texts("notes"), *result.texts("warnings"))
    if warnings:
        blocks.append(Notice(warnings))
    if verdict is not None:
        blocks.append(
            Charts((figures.pairs(_metric_rows(trials, result, verdict), subject=subject, reference=reference),))
        )
    facts = _noise_facts(result)
    if facts:
        blocks.append(FactList(facts))
    if len(trials) > 1:
        blocks.append(TableBlock(_states_table(trials), f"{plural(len(trials), 'trial')} by how they ended."))
    if result.children("rivals"):
        blocks.append(TableBlock(_rivals_table(result), "Configurations to compare with, in the same blocks."))
    return (
        Section(
            "confidence",
            "How sure is it?",
            "What stands behind the verdict, and how large is the noise?",
            tuple(blocks),
        )
        if blocks
        else None
    )


def _metric_rows(trials: Sequence[Trial], result: Fields, verdict: Verdict) -> list[figures.MetricRow]:
    by_run, pairs = {trial.id: trial for trial in trials}, pairs_of(result)
    others = [one for one in verdicts_of(result) if one.metric is not verdict.metric]
    return [
        figures.MetricRow(
            one,
            {
                f"block {pair.block}": ratio
                for pair in pairs
                if (ratio := _pair_ratio(pair, by_run, one.metric, primary=one is verdict)) is not None
            },
        )
        for one in (verdict, *others)
    ]


def _pair_ratio(pair: PairReading, runs: dict[int, Trial], metric: Metric, *, primary: bool) -> float | None:
    a, b = (metric_value(runs[run].outcome, metric) if run in runs else None for run in (pair.a_run, pair.b_run))
    if primary and pair.a is not None and pair.b is not None:
        a, b = pair.a, pair.b
    return b / a if a and b else None


def _noise_facts(result: Fields) -> tuple[tuple[str, str], ...]:
    noise = result.child("noise_floor")
    cv, detectable, pairs = noise.number("cv"), noise.number("detectable"), noise.whole("pairs")
    rows = (
        ("noise of a single run", "" if cv is None else f"{cv:.2%} coefficient of variation of equal runs"),
        (
            "smallest effect that shows",
            "" if detectable is None or pairs is None else f"{detectable:.2%} with {pairs} pairs",
        ),
    )
    return tuple((name, value) for name, value in rows if value)


def _states_table(trials: Sequence[Trial]) -> Table:
    counts = circumstances.state_counts(trials)
    rows = tuple((state.value, str(count), STATE_MEANINGS[state]) for state, count in counts.items())
    return Table(("state", "trials", "meaning"), rows, ("trials",))


def _rivals_table(result: Fields) -> Table:
    rows = []
    for rival in result.children("rivals"):
        verdict, over = verdict_of(rival.child("verdict")), rival.child("winner_over_rival")
        ratio, bounds = over.number("ratio"), over.bounds("ci")
        rows.append(
            (
                rival.text("name"),
                ", ".join(f"{name} = {value}" for name, value in rival.settings("settings").items()),
                "not measured" if verdict is None else f"{verdict.word.value}: {verdict.interval}",
                "" if ratio is None or bounds is None else f"{ratio:.3g}x [{bounds[0]:.3g}, {bounds[1]:.3g}]",
            )
        )
    return Table(("rival", "settings", "against the baseline", "winner against the rival"), tuple(rows))


def unsuccessful(trials: Sequence[Trial], result: Fields, metric: Metric) -> Section | None:
    """List what was tried and did not help: dropped settings, refused, failed and beaten configurations."""
    blocks: list[Block] = []
    dropped = tuple(
        (item.text("knob"), item.text("from"), item.text("to"), item.text("why")) for item in result.children("dropped")
    )
    if dropped:
        table = Table(("setting", "from", "to", "why dropped"), dropped)
        blocks.append(
            TableBlock(table, f"{plural(len(dropped), 'setting')} of the best configuration did not earn a place.")
        )
    failed = _failed_rows(trials, result)
    if failed:
        table = Table(("trial", "state", "settings", "reason"), failed, ("trial",))
        blocks.append(TableBlock(table, f"{plural(len(failed), 'trial')} gave no usable number."))
    worse = _worse_rows(trials, metric)
    if worse:
        table = Table(("trial", "ratio", "settings"), worse, ("trial", "ratio"))
        blocks.append(
            TableBlock(
                table, f"{plural(len(worse), 'searched configuration')} ran below the baseline in a single run.", True
            )
        )
    excluded = tuple((item.text("knob"), item.text("reason")) for item in result.child("search").children("excluded"))
    if excluded:
        table = Table(("knob", "why not searched"), excluded)
        blocks.append(TableBlock(table, f"Left alone: {plural(len(excluded), 'knob')} of the catalogue.", folded=True))
    question = "What was tried and did not help?"
    return Section("unsuccessful", "Tried without success", question, tuple(blocks)) if blocks else None


def _failed_rows(trials: Sequence[Trial], result: Fields) -> tuple[tuple[str, str, str, str], ...]:
    bad = {*TrialState} - {TrialState.COMPLETE, TrialState.RUNNING}
    rows = [
        (str(trial.id), trial.state.value, settings_text(trial.spec.configuration), _reason(trial))
        for trial in trials
        if trial.state in bad
    ]
    if not any(trial.state is TrialState.REFUSED for trial in trials):
        rows += [
            ("", "refused", settings_text(Configuration.of(item.settings("settings"))), item.text("reason"))
            for item in result.children("refused")
        ]
    return tuple(rows)


def _reason(trial: Trial) -> str:
    return (trial.outcome.reason or "") if trial.outcome else ""


def _worse_rows(trials: Sequence[Trial], metric: Metric) -> tuple[tuple[str, str, str], ...]:
    searched = [p for p in trial_points(trials, metric) if p.role is Role.SEARCH and p.ratio is not None]
    return tuple((str(p.trial), f"{p.ratio:.3f}", p.settings) for p in searched if p.ratio is not None and p.ratio < 1)
