"""The report of a benchmark project: planned against actual, a verdict a scenario, conclusion and sizing. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdyno import __version__
from pgdyno.model.figure import Table
from pgdyno.model.project import (
    GOALS,
    Amendment,
    CriterionStatus,
    Fixed,
    Item,
    Peak,
    Project,
)
from pgdyno.report.appendix import limit_sentences
from pgdyno.report.sections import (
    Block,
    FactList,
    Notice,
    Prose,
    Report,
    Section,
    TableBlock,
    Tone,
)
from pgdyno.report.wording import capital, rounded_text
from pgdyno.studies.project.build import ProjectFacts
from pgdyno.studies.project.judged import Judged, judged, late_scenarios, overall
from pgdyno.studies.project.scenario_sections import (
    NOT_RECORDED,
    headline_of,
    plan_section,
    scenario_section,
    verdict_sentence,
)
from pgdyno.units import binary_text, plural, ranges_text

TONES = {
    CriterionStatus.MET: Tone.GOOD,
    CriterionStatus.MISSED: Tone.BAD,
    CriterionStatus.NOT_RESOLVED: Tone.UNSURE,
    CriterionStatus.OPEN: Tone.UNSURE,
}


def project_page(
    project: Project,
    facts: ProjectFacts,
    fixed: Fixed | None,
    edits: Sequence[Amendment] = (),
    pages: Mapping[str, str] | None = None,
) -> Report:
    """Return the report. `edits` are changes of fixed terms that are not on record yet.

    `project` is what its file says, and `facts` what the store has of it. `fixed` are its terms with their amendments,
    None where they were never fixed. `pages` says by study where its own page lies, from the folder of this one; a
    study that it lacks is not linked, and with None no study is.
    """
    scenarios = judged(project, facts)
    whole = overall(scenarios)
    counts = {standing: sum(one.standing is standing for one in scenarios) for standing in CriterionStatus}
    told = ", ".join(f"{count} {standing.value}" for standing, count in counts.items() if count)
    amendments = (*(fixed.amendments if fixed else ()), *edits)
    sections = (
        _conclusion(project, scenarios),
        plan_section(scenarios),
        *(scenario_section(one, number, pages or {}) for number, one in enumerate(scenarios, 1)),
        _sizing(project, facts.peaks),
        _goals(project, scenarios),
        _before(project),
        _terms(fixed, amendments, scenarios, facts.edits),
        _sources(project, facts),
    )
    return Report(
        study="",
        kind="project",
        title=f"{capital(project.name)}: {told} of {plural(len(scenarios), 'scenario')}",
        word=whole.value,
        tone=TONES[whole],
        lead=project.background or f"Benchmark project {project.name}",
        stamp=_stamp(fixed, amendments, scenarios),
        sections=sections,
        digest=sections[:2],
        provenance={"written by": f"pgdyno {__version__}"},
        label=f"project {project.name}",
    )


def _stamp(fixed: Fixed | None, amendments: Sequence[Amendment], scenarios: Sequence[Judged]) -> str:
    if fixed is None:
        return "criteria are not fixed"
    changed = f"; {plural(len(amendments), 'amendment')} since" if amendments else ", unchanged since"
    return f"criteria fixed {fixed.at} by {fixed.by}{changed}"


def _conclusion(project: Project, scenarios: Sequence[Judged]) -> Section:
    sentences = [f"{capital(one.scenario.name)}: {verdict_sentence(one)}" for one in scenarios]
    headlines = [text for one in scenarios for text in headline_of(one.scenario)]
    blocks: list[Block] = [Prose(tuple(sentences), points=True)]
    if headlines:
        blocks.append(Prose(tuple(headlines), points=True))
    stated = tuple(
        f"{capital(one.scenario.name)}: {one.scenario.conclusion}" for one in scenarios if one.scenario.conclusion
    )
    if stated:
        blocks.append(Prose(("Stated by the authors:", *stated)))
    return Section("conclusion", "Conclusion", "Were the criteria met, and what was gained?", tuple(blocks))


def _sizing(project: Project, peaks: Sequence[Peak]) -> Section:
    question = "How large must the system be?"
    if not peaks:
        told = "No peak was measured: no study of the project has samples, and the file names none."
        return Section("sizing", "Sizing", question, (Prose((told,)),))
    columns = ("host", "busy cores at peak", "cores to have", "memory at peak", "memory to have", "from")
    rows = tuple(_sizing_row(peak, project.headroom_pct) for peak in peaks)
    sentences = (
        f"So much that {project.headroom_pct:g} % stays free at the measured peak; cores are rounded up.",
        "A peak is the greatest mean of ten seconds in a row. Cores are those of the server's processes. "
        "Memory is what others could not have had (total less "
        "available): the page cache is not in it, though hits may depend on it. A smaller machine has to be "
        "measured before it is bought.",
    )
    table = TableBlock(Table(columns, rows, columns[1:5]), "Peaks of all runs, and what follows from them.")
    return Section("sizing", "Sizing", question, (table, Prose(sentences)))


def _sizing_row(peak: Peak, headroom_pct: float) -> tuple[str, ...]:
    left = 1 - headroom_pct / 100
    cores = "" if peak.cores is None else str(math.ceil(round(peak.cores / left, 6)))
    memory = "" if peak.memory_bytes is None else binary_text(peak.memory_bytes / left)
    used = "" if peak.memory_bytes is None else binary_text(peak.memory_bytes)
    return (peak.host, rounded_text(peak.cores), cores, used, memory, peak.source)


def _goals(project: Project, scenarios: Sequence[Judged]) -> Section:
    rows = tuple((text, *_goal_state(word, project, scenarios)) for word, text in GOALS.items())
    table = TableBlock(Table(("goal", "state", "by"), rows), "A goal is reached when every scenario that serves it is.")
    return Section("goals", "Goals", "Which goals are reached?", (table,))


def _goal_state(word: str, project: Project, scenarios: Sequence[Judged]) -> tuple[str, str]:
    serving = [one for one in scenarios if word in one.scenario.serves]
    said = project.statements.get(word, "")
    if serving:
        names = ", ".join(one.scenario.name for one in serving)
        state = {CriterionStatus.MET: "reached", CriterionStatus.MISSED: "missed"}.get(
            overall(serving), overall(serving).value
        )
        return state, f"{names}; {said}" if said else names
    return ("stated", said) if said else ("not addressed", "no scenario serves it")


def _before(project: Project) -> Section:
    blocks = (
        TableBlock(_checklist(project.phases), "Phases before the measuring."),
        TableBlock(_checklist(project.deliverables), "Deliverables."),
    )
    return Section("phases", "Phases and deliverables", "What came before, and what is handed over?", blocks)


def _checklist(items: Sequence[Item]) -> Table:
    rows = tuple(("✓" if one.done else "–", one.name, one.done or NOT_RECORDED, one.note) for one in items)
    return Table(("", "what", "done", "note"), rows)


def _terms(
    fixed: Fixed | None, amendments: Sequence[Amendment], scenarios: Sequence[Judged], edits: Sequence[str] = ()
) -> Section:
    title, question = "Terms and amendments", "Were the criteria fixed before the first run?"
    if fixed is None:
        told = "The criteria are not fixed: a reader cannot know that they were set before the first run."
        return Section("terms", title, question, (Notice((told, "pgdyno project fix FILE fixes them.")),))
    rows = (("fixed", f"{fixed.at} by {fixed.by}"), ("hash", fixed.sha256))
    blocks: list[Block] = [FactList(rows)]
    late = late_scenarios(fixed, scenarios)
    if late:
        blocks.insert(0, Notice((f"Runs of {', '.join(late)} are older than the fixed criteria.",)))
    if edits:
        blocks.insert(0, Notice(tuple(edits)))
    if any(one.at is None for one in amendments):
        blocks.insert(0, Notice(("Edits are not on record: pgdyno project amend FILE --reason TEXT records them.",)))
    if amendments:
        columns = ("when", "by", "scenario", "what", "old", "new", "reason")
        cells = tuple((one.at or one.by, one.by if one.at else "unknown", one.scenario, one.field, one.old or "none",
                       one.new or "none", one.reason or "not given") for one in amendments)  # fmt: skip
        blocks.append(TableBlock(Table(columns, cells), "Later edits of what was fixed, with the old text."))
    else:
        blocks.append(Prose(("Nothing that was fixed has been edited since.",)))
    return Section("terms", title, question, tuple(blocks))


def _sources(project: Project, facts: ProjectFacts) -> Section:
    studies = [line.id for one in facts.scenarios.values() for line in one.studies]
    rows = (
        ("store", facts.store if studies else "no study of the store is named: figures are rows of the project's file"),
        ("studies", ", ".join(studies)),
        ("runs", ranges_text(facts.runs) if facts.runs else ""),
        ("every figure", "pgdyno store export STUDY --format csv" if studies else ""),
        ("environment of a study", "pgdyno report STUDY" if studies else ""),
    )
    told = limit_sentences("the systems of this project", "the versions of its studies", "the loads of its scenarios")
    blocks = (FactList(tuple(row for row in rows if row[1])), Prose(told, points=True))
    return Section("about", "Sources and limits", "Where do the figures come from, and what do they cover?", blocks)
