"""What the pages of all kinds have in common: the frame of their sections, and what the recorder's runs show. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.model.results.tune import Retained
from pgdyno.model.study import StudyState
from pgdyno.report import chapters, provenance
from pgdyno.report.bottleneck_section import bottleneck_section
from pgdyno.report.facts_image import server_of
from pgdyno.report.judgement import Judgement, standing
from pgdyno.report.run_details import run_details
from pgdyno.report.sections import Prose, Report, Section, Tile
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import capital


def framed(
    record: StudyRecord,
    said: Judgement,
    sections: Iterable[Section | None],
    digest: Iterable[Section | None],
    *,
    lead: str = "",
    stamp: str = "",
    tiles: Sequence[Tile] = (),
    retained: Sequence[Retained] = (),
) -> Report:
    """Return the report of a study. What is None among the sections is left out.

    `said` gives title, word and tone. `sections` make the page and `digest` the short form for the terminal; the error
    that ended the study of `record`, if any, comes first in both. An empty `lead` becomes load and target, an empty
    `stamp` version, machine, size of the data and durability, with what the `retained` settings risk. `tiles` stand
    below the headline, in order.
    """
    study, result = record.study, record.study.result
    failed = _failed(record)
    return Report(
        study=study.id,
        kind=study.kind.value,
        title=said.title,
        word=said.word,
        tone=said.tone,
        lead=capital(lead or f"{study.workload.description or study.workload.name}, on {study.target}"),
        stamp=stamp or provenance.stamp(study, record.trials, retained),
        tiles=tuple(tiles),
        sections=tuple(one for one in (failed, *sections) if one is not None),
        digest=tuple(one for one in (failed, *digest) if one is not None),
        provenance=provenance.provenance(study, record.trials, result.elapsed_s if result else None),
    )


def observed(
    record: StudyRecord,
    said: Judgement,
    sections: Iterable[Section],
    digest: Iterable[Section],
    method: Sequence[str],
    *,
    done: str,
    lead: str,
    tiles: Sequence[Tile] = (),
) -> Report:
    """Return the report of a study of a load that others made, with its `method` in the last section.

    `done` is what was done with that load: watched, or sent. `method` are sentences; `record`, `said`, `sections`,
    `digest`, `lead` and `tiles` are as in `framed`.
    """
    study, question = record.study, f"What exactly was {done}, where and how?"
    blocks = (provenance.environment(study, record.trials), Prose(tuple(method), points=True))
    about = Section("about", "Environment and method", question, blocks)
    stamp = f"PostgreSQL {server_of(study).text('version') or 'of unknown version'}"
    return framed(record, said, (*sections, about), digest, lead=lead, stamp=stamp, tiles=tiles)


def unfinished(record: StudyRecord, about: Section) -> Report:
    """Return the page of a study without a result: how it stands, and what it is about."""
    return framed(record, standing(record.study), (about,), (about,))


def _failed(record: StudyRecord) -> Section | None:
    """Say what ended a study that has no end of its own: the error, and its last run where that tells more."""
    study, outcome = record.study, record.trials[-1].outcome if record.trials else None
    why = study.ended
    said = [f"{capital(why)}."] if why else []
    reason = None if outcome is None or study.state is not StudyState.FAILED else outcome.reason
    if reason and reason not in why:
        said.append(f"Run {record.trials[-1].id}: {reason}.")
    return Section("failed", "What ended it", "Why is there no result?", (Prose(tuple(said)),)) if said else None


def inside_runs(record: StudyRecord, plans: Section | None = None) -> tuple[Section | None, ...]:
    """Return what held the recorder's runs back, the `plans` that changed, the recorder, and what else is known."""
    recorder = chapters.flight(record.traces)
    return bottleneck_section(record.bottlenecks), plans, recorder, run_details(record.judged)
