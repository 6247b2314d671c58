"""The short form of a report, which a study prints when it ends: first things first, on about 45 lines. Pure.

Headline and tiles come from the report itself; what follows here is the change, why it works, what it was compared
with, and the lines to copy. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.model.results.ab import AbResult
from pgdyno.model.results.bench import BenchResult
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.results.tune import Retained, TuneResult
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.model.study import Study, StudyKind
from pgdyno.model.trial import Trial
from pgdyno.report import chapters, provenance, reliability
from pgdyno.report.figures import verdict_table
from pgdyno.report.held_back_section import WORDS
from pgdyno.report.judgement import unused_reasons
from pgdyno.report.reads import reads_facts
from pgdyno.report.sections import Block, FactList, Prose, Section, TableBlock
from pgdyno.report.wording import plural

FEW_SETTINGS = 5
MOST_SENTENCES = 4
MOST_WARNINGS = 3


def digest(study: Study, trials: Sequence[Trial], result: StudyResult | None) -> tuple[Section, ...]:
    """Return the sections of the short form; of a study without a result only where the full report is."""
    sections: tuple[Section, ...] = ()
    if isinstance(result, TuneResult):
        sections = _tune(trials, result)
    elif isinstance(result, AbResult):
        sections = _ab(trials, result)
    elif study.kind is StudyKind.BENCH:
        sections = _bench(trials, result if isinstance(result, BenchResult) else None)
    return (*(section for section in sections if section.blocks), _pointer(study, result))


def _tune(trials: Sequence[Trial], result: TuneResult) -> tuple[Section, ...]:
    settings = chapters.winner_of(result)
    copied = chapters.snippets(result, settings) if settings and not result.keep else ()
    kept = chapters.keep_blocks(result, result.verdict)[:1]
    return (
        _section("change", "What to change", kept if result.keep else _change(settings, result.retained)),
        _section("why", "Why it works", () if result.keep else _why(result, len(settings))),
        _section("confidence", "How sure is it?", _doubts(trials, result, settings)),
        _section("copy", "To copy", copied),
    )


def _change(settings: Configuration, retained: Sequence[Retained]) -> tuple[Block, ...]:
    if not settings:
        return ()
    need = chapters.need_text(len(settings), retained)
    return (TableBlock(chapters.effects_table(retained), need),) if retained else (Prose((need,)),)


def _why(result: TuneResult, settings: int) -> tuple[Block, ...]:
    sentences = result.explanation[: MOST_SENTENCES if settings <= FEW_SETTINGS else 2]
    return (Prose(sentences, points=True),) if sentences else ()


def _doubts(trials: Sequence[Trial], result: TuneResult, settings: Configuration) -> tuple[Block, ...]:
    dropped = [one.knob for one in result.dropped]
    rows = [
        *(("rival", sentence) for sentence in reliability.rival_sentences(result)),
        ("found", "" if result.keep else chapters.unpruned_text(result, settings)),
        ("dropped", f"{plural(len(dropped), 'setting')}: {', '.join(dropped)}" if dropped else ""),
        *reliability.noise_facts(result),
        ("trials", _states(trials)),
        *(("note", warning) for warning in reliability.warnings_of(result)[:MOST_WARNINGS]),
    ]
    return _facts(rows)


def _ab(trials: Sequence[Trial], result: AbResult) -> tuple[Section, ...]:
    verdicts = (*((result.verdict,) if result.verdict else ()), *result.closed_others)
    judged: tuple[Block, ...] = ()
    if verdicts:
        judged = (TableBlock(verdict_table(verdicts), "B against A, by metric."),)
    held = [
        row
        for arm in ("A", "B")
        if (run := result.inside.get(arm)) is not None
        for row in _held_back(f"{arm} held back by", run.evidence)
    ]
    plans = [
        ("another plan", ": ".join(part for part in (one.statement, ", ".join(one.what)) if part))
        for one in result.plans
        if one.word == "changed"
    ]
    facts = _facts(
        [("trials", _states(trials)), *held, *plans, *(("note", text) for text in reliability.warnings_of(result))]
    )
    return (chapters.arms(result), _section("confidence", "How sure is it?", (*judged, *facts)))


def _bench(trials: Sequence[Trial], result: BenchResult | None) -> tuple[Section, ...]:
    used, unused = ((), ()) if result is None else (result.usable, result.unused)
    shown = next(iter((*used[::-1], *unused[::-1])), None)
    number = None if shown is None else shown.figures.run
    trial = next((one for one in reversed(trials) if one.id == number and one.outcome is not None), None)
    rows = [
        *(("not used", reason) for reason in unused_reasons(unused)),
        *(chapters.run_facts(trial).rows if trial is not None else ()),
        *(reads_facts(trial) if trial is not None else ()),
        *(() if shown is None else _held_back("held back by", shown.evidence)),
        *(("note", warning) for warning in reliability.warnings_of(result)),
    ]
    title = "The run" if used else "The run, which was not used"
    section, own = _section("run", title, _facts(rows)), chapters.own_settings(trials)
    return (section,) if own is None else (own, section)


def _held_back(label: str, run: RunEvidence) -> list[tuple[str, str]]:
    """Return the bottleneck of a run and its first sentence of evidence."""
    evidence = next(iter(run.held_back.evidence), "")
    if not evidence:
        return []
    return [(label, f"{WORDS[run.held_back.resource]}. {evidence.partition(' (Threshold')[0]}")]


def _section(name: str, title: str, blocks: tuple[Block, ...]) -> Section:
    return Section(name, title, "", blocks)


def _facts(rows: Sequence[tuple[str, str]]) -> tuple[Block, ...]:
    known = tuple((name, value) for name, value in rows if value)
    return (FactList(known),) if known else ()


def _states(trials: Sequence[Trial]) -> str:
    return ", ".join(f"{count} {state.value}" for state, count in provenance.state_counts(trials).items())


def _pointer(study: Study, result: StudyResult | None) -> Section:
    page = ("as a page", f"pgdyno report {study.id} -o report.html")
    if result is not None and result.report:
        page = ("HTML", result.report)
    return _section("report", "The full report", _facts([("in the terminal", f"pgdyno report {study.id}"), page]))
