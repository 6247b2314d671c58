"""The short form of a report, which a study prints when it ends: first things first, on about 45 lines. Pure.

Headline and tiles come from the report itself; what follows here is the change, why it works, what it was compared
with, and the lines to copy. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.bottleneck import Resource
from pgdyno.model.configuration import Configuration
from pgdyno.model.study import Retained, Study, StudyKind
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Verdict
from pgdyno.report import chapters, provenance, reliability
from pgdyno.report.figures import verdict_table
from pgdyno.report.held_back_section import WORDS
from pgdyno.report.judgement import unused_reasons, used_runs
from pgdyno.report.reading import Fields, sides_of, verdicts_of
from pgdyno.report.reads import reads_facts
from pgdyno.report.sections import Block, FactList, Prose, Section, TableBlock
from pgdyno.report.wording import plural

FEW_SETTINGS = 5
MOST_SENTENCES = 4
MOST_WARNINGS = 3


def digest(
    study: Study, trials: Sequence[Trial], result: Fields, verdict: Verdict | None, retained: Sequence[Retained]
) -> tuple[Section, ...]:
    """Return the sections of the short form; of a study without a result only where the full report is."""
    sections = {StudyKind.TUNE: _tune, StudyKind.AB: _ab, StudyKind.BENCH: _bench}[study.kind](
        trials, result, verdict, retained
    )
    return (*(section for section in sections if section.blocks), _pointer(study, result))


def _tune(
    trials: Sequence[Trial], result: Fields, verdict: Verdict | None, retained: Sequence[Retained]
) -> tuple[Section, ...]:
    keep, settings = result.flag("keep"), Configuration.of(result.child("winner").settings("settings"))
    copied = chapters.snippets(result, settings) if settings and not keep else ()
    return (
        _section(
            "change",
            "What to change",
            chapters.keep_blocks(result, verdict)[:1] if keep else _change(settings, retained),
        ),
        _section("why", "Why it works", () if keep else _why(result, len(settings))),
        _section("confidence", "How sure is it?", _doubts(trials, result)),
        _section("copy", "To copy", copied),
    )


def _change(settings: Configuration, retained: Sequence[Retained]) -> tuple[Block, ...]:
    if not settings:
        return ()
    need = chapters.need_text(len(settings), retained)
    return (TableBlock(chapters.effects_table(retained), need),) if retained else (Prose((need,)),)


def _why(result: Fields, settings: int) -> tuple[Block, ...]:
    sentences = result.texts("explanation")[: MOST_SENTENCES if settings <= FEW_SETTINGS else 2]
    return (Prose(sentences, points=True),) if sentences else ()


def _doubts(trials: Sequence[Trial], result: Fields) -> tuple[Block, ...]:
    settings = result.child("winner").settings("settings")
    dropped = [item.text("knob") for item in result.children("dropped")]
    rows = [
        *(("rival", sentence) for sentence in reliability.rival_sentences(result)),
        ("found", "" if result.flag("keep") else chapters.unpruned_text(result, settings)),
        ("dropped", f"{plural(len(dropped), 'setting')}: {', '.join(dropped)}" if dropped else ""),
        *reliability.noise_facts(result),
        ("trials", _states(trials)),
        *(("mind", warning) for warning in reliability.warnings_of(result)[:MOST_WARNINGS]),
    ]
    return _facts(rows)


def _ab(
    trials: Sequence[Trial], result: Fields, verdict: Verdict | None, retained: Sequence[Retained]
) -> tuple[Section, ...]:
    del retained  # an A/B experiment measures none of single settings
    if not result.members:
        return ()
    verdicts = (*((verdict,) if verdict else ()), *verdicts_of(result))
    judged: tuple[Block, ...] = ()
    if verdicts:
        judged = (TableBlock(verdict_table(verdicts), "B against A, by metric."),)
    inside = result.child("inside")
    held = [row for arm in ("A", "B") for row in _held_back(f"{arm} held back by", inside.child(arm))]
    plans = [
        ("another plan", ": ".join(part for part in (one.text("statement"), ", ".join(one.texts("what"))) if part))
        for one in result.children("plans")
        if one.text("word") == "changed"
    ]
    facts = _facts(
        [("trials", _states(trials)), *held, *plans, *(("mind", text) for text in reliability.warnings_of(result))]
    )
    return (chapters.arms(sides_of(result)), _section("confidence", "How sure is it?", (*judged, *facts)))


def _bench(
    trials: Sequence[Trial], result: Fields, verdict: Verdict | None, retained: Sequence[Retained]
) -> tuple[Section, ...]:
    del verdict, retained  # one run compares nothing
    used, unused = used_runs(result) if result.members else ([], [])
    shown = next(iter((*used[::-1], *unused[::-1])), result)
    trial = next((one for one in reversed(trials) if one.id == shown.whole("run") and one.outcome is not None), None)
    rows = [
        *(("not used", reason) for reason in unused_reasons(unused)),
        *(chapters.run_facts(trial).rows if trial is not None else ()),
        *(reads_facts(trial) if trial is not None else ()),
        *_held_back("held back by", shown),
        *(("mind", warning) for warning in reliability.warnings_of(result)),
    ]
    title = "The run" if used else "The run, which was not used"
    section, own = _section("run", title, _facts(rows)), chapters.own_settings(trials)
    return (section,) if own is None else (own, section)


def _held_back(label: str, run: Fields) -> list[tuple[str, str]]:
    """Return the bottleneck of a run and its first sentence of evidence, and what failed if anything did."""
    verdict = run.child("bottleneck")
    if not verdict.members:
        return []
    word = Resource(verdict.text("resource"))
    evidence = next(iter(verdict.texts("evidence")), "")
    return [(label, f"{WORDS[word]}. {evidence.partition(' (Threshold')[0]}")]


def _section(name: str, title: str, blocks: tuple[Block, ...]) -> Section:
    return Section(name, title, "", blocks)


def _facts(rows: Sequence[tuple[str, str]]) -> tuple[Block, ...]:
    known = tuple((name, value) for name, value in rows if value)
    return (FactList(known),) if known else ()


def _states(trials: Sequence[Trial]) -> str:
    return ", ".join(f"{count} {state.value}" for state, count in provenance.state_counts(trials).items())


def _pointer(study: Study, result: Fields) -> Section:
    rows = [("in the terminal", f"pgdyno report {study.id}"), ("HTML", result.text("report"))]
    if not result.text("report"):
        rows[1] = ("as a page", f"pgdyno report {study.id} -o report.html")
    return _section("report", "The full report", _facts(rows))
