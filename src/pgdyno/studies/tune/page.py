"""The page of a tune: the change, why it works, how sure that is, and how it was found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgdyno.model.configuration import Configuration
from pgdyno.model.figure import Table
from pgdyno.model.results.tune import ParetoPoint, TuneResult
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Metric
from pgdyno.report import chapters, digest, provenance, reliability, tiles
from pgdyno.report.page_frame import framed, inside_runs
from pgdyno.report.reads import reads_section
from pgdyno.report.run_details import plan_section
from pgdyno.report.sections import Block, Prose, Report, Section, TableBlock, Tile
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import settings_text
from pgdyno.studies.kinds import judged
from pgdyno.studies.tune import answer, doubts
from pgdyno.studies.tune.importance_page import knobs_section, searched_runs
from pgdyno.studies.tune.kind import KIND
from pgdyno.units import bytes_text, digits_text, plural

FEW_SETTINGS = 5
MOST_SENTENCES = 4
MOST_WARNINGS = 3
SEARCHED = (
    "What a search found is confirmed by fresh runs before it is believed. Settings of which next to nothing is "
    "expected are left out, and all that was found runs beside the rest, to tell whether they are missed. A setting "
    "that the proof does not show to do anything is not offered."
)


def tune_page(record: StudyRecord) -> Report:
    """Return the report; of an unfinished one the course of the search."""
    study, trials, result = record.study, record.trials, record.study.told(TuneResult)
    verdict = None if result is None else result.verdict
    metric = verdict.metric if verdict else study.metric
    names = KIND.sides_of(result)
    said, sides = judged(study), (names.reference, names.subject)
    more = () if result is None else doubts.rivals_and_noise(result)
    return framed(
        record,
        said,
        (
            None if result is None else answer.change(result, verdict, provenance.data_bytes(trials)),
            None if result is None else answer.explanation(result),
            None if result is None else gain_memory(result.pareto, metric),
            reliability.confidence(trials, result, names, doubts.warnings_of(result), more),
            reads_section(trials, () if result is None else result.confirmation.pairs, sides),
            doubts.search(trials, metric, result),
            None
            if result is None or result.model is None
            else knobs_section(result.model, searched_runs(trials, metric)),
            *inside_runs(record, None if result is None else plan_section(result.plans, sides)),
            doubts.unsuccessful(trials, result, metric),
            chapters.about(study, trials, (*chapters.paired(trials), SEARCHED)),
        ),
        (*(() if result is None else _digest(trials, result)), digest.pointer(study)),
        lead=record.load,
        tiles=() if result is None else _tiles(result),
        retained=() if result is None else result.retained,
    )


def _tiles(result: TuneResult) -> tuple[Tile, ...]:
    if not result.keep:
        return tiles.of_both(result)
    if result.verdict is None and result.baseline is not None and result.winner is not None:
        return tiles.of_one(result.baseline)
    return tuple(replace(one, label=f"best candidate: {one.label}") for one in tiles.of_both(result))


def _digest(trials: Sequence[Trial], result: TuneResult) -> tuple[Section | None, ...]:
    settings = answer.winner_of(result)
    copied = (*answer.snippets(result, settings), answer.apply_snippet(result)) if settings and not result.keep else ()
    kept = answer.keep_blocks(result, result.verdict)[:1]
    return (
        digest.short("change", "What to change", kept if result.keep else _change(settings, result)),
        digest.short("why", "Why it works", () if result.keep else _why(result, len(settings))),
        digest.short("confidence", "How sure is it?", _doubts(trials, result, settings)),
        digest.short("copy", "To copy", copied),
    )


def _change(settings: Configuration, result: TuneResult) -> tuple[Block, ...]:
    if not settings:
        return ()
    need, retained = answer.need_text(len(settings), result.retained, result.joint), result.retained
    return (TableBlock(answer.effects_table(retained, result.joint), need),) if retained else (Prose((need,)),)


def _why(result: TuneResult, settings: int) -> tuple[Block, ...]:
    sentences = result.explanation[: MOST_SENTENCES if settings <= FEW_SETTINGS else 2]
    return (Prose(sentences, points=True),) if sentences else ()


def _doubts(trials: Sequence[Trial], result: TuneResult, settings: Configuration) -> tuple[Block, ...]:
    dropped = [one.knob for one in result.dropped]
    return digest.facts([
        *(("rival", sentence) for sentence in doubts.rival_sentences(result)),
        ("found", "" if result.keep else answer.unpruned_text(result, settings)),
        ("dropped", f"{plural(len(dropped), 'setting')}: {', '.join(dropped)}" if dropped else ""),
        *doubts.noise_facts(result),
        digest.states(trials),
        *(("note", warning) for warning in doubts.warnings_of(result)[:MOST_WARNINGS]),
    ])  # fmt: skip


COLUMNS = ("memory at worst", "against the baseline", "server CPU", "how it is known", "settings", "")
CAPTION = (
    "None that was tried has more gain and less memory than one of these. What is measured ran in fresh pairs. The "
    "rest is what the model expects, from single runs of the search: it proves nothing. Memory is what the settings "
    "allow all sessions and workers together at worst, and not what was used. Server CPU is that of a transaction over "
    "the baseline's, by the medians of the runs."
)


def gain_memory(points: Sequence[ParetoPoint], metric: Metric) -> Section | None:
    """List gain against memory; None where there is nothing to choose between."""
    if len(points) < 2:
        return None
    rows = tuple(_row(point) for point in points)
    caption = f"By {metric.label}. {CAPTION}"
    table = Table(COLUMNS, rows, COLUMNS[:3])
    return Section.of_table("memory", "Gain against memory", "What would less memory cost?", table, caption)


def _row(point: ParetoPoint) -> tuple[str, ...]:
    settings = Configuration.of(point.settings)
    if not settings:
        known, against = "the baseline", ""
    elif point.basis == "measured":
        known, against = f"measured in {plural(point.runs, 'pair')}", str(point.ratio)
    else:
        known, against = f"expected by the model, of {plural(point.runs, 'run')}", f"about {point.ratio}"
    taken = "taken" if point.taken else ""
    cpu = "unknown" if point.cpu is None else f"{digits_text(point.cpu)}x"
    return (bytes_text(point.memory_bytes), against, cpu, known, settings_text(settings), taken)
