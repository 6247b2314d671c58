"""Two studies side by side: what they found, what they offer, and where their servers and loads differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.errors import PgdynoError
from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Table
from pgdyno.model.study import Study
from pgdyno.model.verdict import Verdict
from pgdyno.report import provenance
from pgdyno.report.figures import ends_of, interval_series, intervals_table, ratio_axis
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Report, Section, TableBlock, Tone
from pgdyno.store.catalogue import Store
from pgdyno.studies.kinds import judged
from pgdyno.studies.winner import offered_by
from pgdyno.units import plural

NAMES = "first", "second"


def build_studies_beside(store: Store, first: str, second: str) -> Report:
    """Return the page of two studies, each by its id, a prefix, or `last`. Raises UsageError as `Store.study`."""
    return studies_beside(store.study(first), store.study(second))


def studies_beside(first: Study, second: Study) -> Report:
    """Return the page: no verdict of one against the other, for they did not run interleaved. Pure."""
    both = first, second
    blocks: list[Block] = [
        Notice((
            "Two studies are not interleaved: what differs between them may be the hour. Compare two configurations in "
            "one study to have a verdict, with pgdyno experiment --ab or pgdyno live.",
        )),
        _found(both),
    ]  # fmt: skip
    if figure := _verdicts(both):
        blocks.append(Charts((figure,)))
    return Report(
        study=second.id,
        kind="comparison",
        title=f"{second.id} beside {first.id}",
        word="not resolved",
        tone=Tone.UNSURE,
        lead=" and ".join(f"{one.kind.value} of {one.target}" for one in both),
        stamp="Each figure holds under the conditions of its own study",
        sections=(
            Section("answer", "Answers", "What did each find?", tuple(blocks)),
            Section("settings", "Settings", "What does each offer?", (_settings(both),)),
            Section("environment", "Where they differ", "Is it the same server and load?", (_differences(both),)),
        ),
        label=f"studies {first.id} and {second.id}",
    )


def _found(both: Sequence[Study]) -> TableBlock:
    rows = []
    for name, one in zip(NAMES, both, strict=True):
        said = judged(one)
        rows.append((name, one.id, one.kind.value, one.state.value, said.word, said.title))
    return TableBlock(
        Table(("which", "study", "kind", "state", "word", "what it found"), tuple(rows)), "In their own words."
    )


def _verdict(study: Study) -> Verdict | None:
    return None if study.result is None else study.result.headline


def _verdicts(both: Sequence[Study]) -> Figure | None:
    """Draw the two verdicts; None unless both have a closed one of the same metric."""
    found = [one for one in map(_verdict, both) if one is not None and one.interval.is_closed]
    if len(found) < len(both) or found[0].metric is not found[1].metric:
        return None
    metric = found[0].metric
    rows = [
        (f"{name}: {study.id}\n{verdict.word.value}, {plural(verdict.pairs, 'pair')}", verdict.interval)
        for name, study, verdict in zip(NAMES, both, found, strict=True)
    ]
    axis = ratio_axis(f"{metric.label} against its own baseline", ends_of(interval for _, interval in rows))
    return Figure(
        kind=FigureKind.FOREST,
        id="verdicts",
        title=f"{metric.label}: {found[0].interval} and {found[1].interval}",
        question="How far did each come, from its own baseline?",
        x=Axis("study"),
        y=axis,
        series=(interval_series("study", rows, axis, "total"),),
        marks=(Mark("y", 1.0, "baseline", "reference"),),
        table=intervals_table("study", rows),
        caption=f"{'Right' if metric.higher_is_better else 'Left'} of 1 is better.",
    )


def _offered(study: Study) -> Mapping[str, str]:
    try:
        return dict(offered_by(study).settings)
    except PgdynoError:
        return {}


def _settings(both: Sequence[Study]) -> Block:
    offers = [_offered(one) for one in both]
    names = sorted({*offers[0], *offers[1]})
    if not names:
        return Prose(("Neither offers a setting.",))
    rows = tuple((name, *(offer.get(name, "as found") for offer in offers)) for name in names)
    return TableBlock(Table(("setting", *NAMES), rows), "Settings that were proved and are offered.")


def _differences(both: Sequence[Study]) -> Block:
    facts = [dict([*provenance.environment(one, ()).rows, *provenance.workload(one, ()).rows]) for one in both]
    names = tuple(dict.fromkeys((*facts[0], *facts[1])))
    rows = tuple(
        (name, *(one.get(name, "not recorded") for one in facts))
        for name in names
        if facts[0].get(name) != facts[1].get(name)
    )
    if not rows:
        return FactList((("server, host and load", "the same, as far as it was recorded"),))
    return TableBlock(Table(("what", *NAMES), rows), "Facts that are the same are left out.")
