"""The page of a target: what is known of it, what its studies found, what was changed there, and how that is undone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pgdyno.errors import UsageError
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.figure import Table
from pgdyno.model.study import Study
from pgdyno.report import provenance
from pgdyno.report.appendix import changes_table
from pgdyno.report.facts_image import server_of
from pgdyno.report.sections import Block, FactList, Prose, Report, Section, TableBlock, Tone
from pgdyno.store.catalogue import Store
from pgdyno.studies.kinds import judged
from pgdyno.units import MINUTE, moment_text, plural

MOST = 500
"""So many studies of it are shown, the newest: the row of one can be large."""
OF_A_LOAD = ("data of the load", "network", "driver")
"""Facts of one study's runs, which say nothing of the server."""


def build_target_page(store: Store, name: str) -> Report:
    """Return the page of a target, by the name that studies call it. Raises UsageError for one without a study."""
    studies, _ = store.listed_studies(target=name, most=MOST)
    if not studies:
        raise UsageError(f'no study of target "{name}" is in this store')
    return target_page(name, studies, [one for one in store.changes() if one.target == name])


def target_page(name: str, studies: Sequence[Study], changes: Sequence[ChangeRecord]) -> Report:
    """Return the page; `studies` are the newest first. Pure."""
    newest = studies[0]
    facts = FactList(tuple(row for row in provenance.environment(newest, ()).rows if row[0] not in OF_A_LOAD))
    version = server_of(newest).text("version") or "of unknown version"
    advised: Block = Prose((
        "Findings are not kept in the store, for they are of the moment: pgdyno advise with this target looks anew, "
        "and changes nothing.",
    ))  # fmt: skip
    return Report(
        study=newest.id,
        kind="target",
        title=f"{name}: studies and changes on record",
        word="",
        tone=Tone.NEUTRAL,
        lead=f"{plural(len(changes), 'change')} and studies of it in the store: {len(studies)}; facts as study "
        f"{newest.id} saw them, {moment_text(newest.created_at, MINUTE)}",
        stamp=f"PostgreSQL {version}",
        sections=(
            Section("facts", "Facts", "What is this server, and on what does it run?", (facts,)),
            Section("studies", "Studies", "What was found here?", (_studies(studies),)),
            Section("findings", "Findings", "What would the advisor say?", (advised,)),
            Section("changes", "Changes on record", "Who changed what, and how is it undone?", _changes(changes)),
        ),
        label=f"target {name}",
    )


def _studies(studies: Sequence[Study]) -> TableBlock:
    rows = []
    for one in studies:
        said = judged(one)
        rows.append((moment_text(one.created_at, MINUTE), one.id, one.kind.value, said.word, said.title))
    table = Table(("began", "study", "kind", "word", "what it found"), tuple(rows))
    return TableBlock(table, f"Of the newest {MOST} studies of this store, the newest first.")


def _changes(changes: Sequence[ChangeRecord]) -> tuple[Block, ...]:
    if not changes:
        return (Prose(("Nothing that pgdyno put in force here is on record in this store.",)),)
    last = {one.session: one for one in changes}
    open_sessions = [session for session, one in last.items() if one.action is ChangeAction.APPLY]
    rows = tuple(
        (session, ", ".join(dict.fromkeys(one.knob for one in changes if one.session == session)),
         f"pgdyno rollback {shlex.quote(session)}")
        for session in open_sessions
    )  # fmt: skip
    trail = TableBlock(changes_table(changes), f"{plural(len(changes), 'change')}, the newest last.")
    if not rows:
        return (Prose(("All that is on record was taken back.",)), trail)
    caption = (
        "What was not taken back, by session. The command puts back what it found, on the host that has the bundle."
    )
    return (TableBlock(Table(("session", "settings", "undo"), rows), caption), trail)
