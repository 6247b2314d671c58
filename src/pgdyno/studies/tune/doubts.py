"""What a tune's page says of how it came to its answer: rivals, noise, the search, what did not help. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from pgdyno.model.configuration import Configuration
from pgdyno.model.figure import Table
from pgdyno.model.results.tune import Dropped, TuneResult
from pgdyno.model.trial import Role, Trial, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.report import figures
from pgdyno.report.neighbours import phases, trial_points
from pgdyno.report.sections import Block, Charts, FactList, Prose, Section, TableBlock
from pgdyno.report.wording import difference_text, settings_text, share_text, told_once
from pgdyno.stats.noise import MOST_EFFECT, RUNS_TO_TELL, why_untold
from pgdyno.units import digits_text, plural

FAILED = {TrialState.REFUSED, TrialState.FAILED, TrialState.VOID}
SPOILT = {TrialState.DISTURBED, TrialState.UNSTEADY, TrialState.PARTIAL, TrialState.ABANDONED}
FAILED_COLUMNS = ("trial", "state", "settings", "reason")
MANY = 8


def warnings_of(result: TuneResult | None) -> tuple[str, ...]:
    """Return notes and warnings; those that differ in their numbers alone are told once, with how many they are."""
    return () if result is None else told_once((*result.notes, *result.warnings))


def rivals_and_noise(result: TuneResult) -> list[Block]:
    """Return what stands beside the pairs: the rivals that ran in the same blocks, and the noise."""
    blocks: list[Block] = []
    if result.rivals:
        blocks.append(Prose(rival_sentences(result)))
        blocks.append(TableBlock(_rivals_table(result), "Rivals ran in the same blocks as baseline and winner."))
    return [*blocks, FactList(noise_facts(result))]


def rival_sentences(result: TuneResult) -> tuple[str, ...]:
    """Say what share of each rival's figure the winner reaches; empty without a rival."""
    found = []
    subject = "The best candidate" if result.keep else "The winner"
    for rival in result.rivals:
        share, settings = rival.winner_over_rival, settings_text(rival.settings)
        if share.is_closed:
            metric = rival.verdict.metric if rival.verdict else Metric.THROUGHPUT
            found.append(
                f"{subject} reaches {share_text(share)} of the {metric.label} of {rival.name} "
                f"({settings}), measured in the same blocks: {difference_text(share, metric)}."
            )
    return tuple(found)


def _rivals_table(result: TuneResult) -> Table:
    rows = []
    for rival in result.rivals:
        verdict = rival.verdict
        rows.append(
            (
                rival.name,
                ", ".join(f"{name} = {value}" for name, value in rival.settings.items()),
                "not measured"
                if verdict is None or not verdict.interval.is_closed
                else f"{verdict.word.value}: {verdict.interval}",
                str(rival.winner_over_rival) if rival.winner_over_rival.is_closed else "",
            )
        )
    return Table(("rival", "settings", "against the baseline", "winner against the rival"), tuple(rows))


def noise_facts(result: TuneResult) -> tuple[tuple[str, str], ...]:
    """Return the noise of this machine under this load, in words; what cannot be told is said, not computed."""
    noise, detectable = result.noise_floor, result.noise_floor.detectable
    runs, odd = len(noise.runs), noise.odd
    single = f"{digits_text(noise.cv * 100, 2)} %, coefficient of variation of {plural(runs, 'equal run')}"
    if odd is not None and odd.ratio is not None:
        single += f"; one more (trial {odd.run}) was {digits_text(odd.ratio, 2)} times the others and is left out"
    if detectable is None or detectable > MOST_EFFECT or runs < RUNS_TO_TELL:  # kept by an earlier version, perhaps
        effect = f"unknown: {why_untold(runs)}"
    else:
        effect = f"{digits_text(detectable * 100, 2)} % with {plural(noise.pairs, 'pair')}"
    return (("noise of a single run", single), ("smallest effect that shows", effect))


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


def unsuccessful(trials: Sequence[Trial], result: TuneResult | None, metric: Metric) -> Section | None:
    """List what was tried and did not help: dropped settings, refused, failed and beaten configurations."""
    blocks: list[Block] = []
    dropped = () if result is None else result.dropped
    if dropped:
        caption = f"{plural(len(dropped), 'setting')} of the search's best configuration did not earn a place."
        blocks.append(TableBlock(Table(("settings dropped together", "why"), _dropped_rows(dropped)), caption))
    failed, spoilt = _failed_rows(trials, result, FAILED), _failed_rows(trials, result, SPOILT)
    if failed:
        caption = f"{plural(len(failed), 'attempt')} to measure a configuration failed."
        blocks.append(TableBlock(Table(FAILED_COLUMNS, failed, ("trial",)), caption, folded=len(failed) > MANY))
    if spoilt:
        caption = f"{plural(len(spoilt), 'trial')} ran, but gave no number that can be used."
        blocks.append(TableBlock(Table(FAILED_COLUMNS, spoilt, ("trial",)), caption, folded=True))
    worse = _worse_rows(trials, metric)
    if worse:
        table = Table(("trial", "ratio", "settings"), worse, ("trial", "ratio"))
        blocks.append(
            TableBlock(
                table, f"{plural(len(worse), 'searched configuration')} ran below the baseline in a single run.", True
            )
        )
    excluded = () if result is None else result.search.excluded
    if excluded:
        table = Table(("why not searched", "knobs"), _gathered((item.reason, item.knob) for item in excluded))
        blocks.append(TableBlock(table, f"Left alone: {plural(len(excluded), 'knob')} of the catalogue.", folded=True))
    question = "What was tried and did not help?"
    return Section("unsuccessful", "Tried without success", question, tuple(blocks)) if blocks else None


def _dropped_rows(dropped: Sequence[Dropped]) -> tuple[tuple[str, str], ...]:
    """Return a row for each reason with all its settings; a reason need not repeat their names."""
    rows = _gathered((item.why or "", f"{item.knob} {item.before} → {item.after}") for item in dropped)
    return tuple((settings, why.split(" dropped: ", 1)[-1]) for why, settings in rows)


def _gathered(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Join the second members of the pairs that share their first."""
    found: dict[str, list[str]] = {}
    for key, text in pairs:
        found.setdefault(key, []).append(text)
    return tuple((key, ", ".join(texts)) for key, texts in found.items())


def _failed_rows(
    trials: Sequence[Trial], result: TuneResult | None, bad: Set[TrialState]
) -> tuple[tuple[str, str, str, str], ...]:
    rows = [
        (str(trial.id), trial.state.value, settings_text(trial.spec.configuration), trial.reason)
        for trial in trials
        if trial.state in bad
    ]
    if (
        result is not None
        and TrialState.REFUSED in bad
        and not any(trial.state is TrialState.REFUSED for trial in trials)
    ):
        rows += [
            ("", "refused", settings_text(Configuration.of(item.settings)), item.reason or "")
            for item in result.refused
        ]
    return tuple(rows)


def _worse_rows(trials: Sequence[Trial], metric: Metric) -> tuple[tuple[str, str, str], ...]:
    searched = [p for p in trial_points(trials, metric) if p.role is Role.SEARCH and p.ratio is not None]
    return tuple((str(p.trial), f"{p.ratio:.3f}", p.settings) for p in searched if p.ratio is not None and p.ratio < 1)
