"""The databases of one study: in use by it while it lasts, and dropped at its end unless they are to be kept."""

from __future__ import annotations

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.model.facts import Facts
from pgdyno.server.database_use import DatabaseUse
from pgdyno.server.own_databases import (
    DatabaseState,
    OwnDatabase,
    drop_owned,
    drop_unused,
    mark_kept,
    own_databases,
    owned_state,
)
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text
from pgdyno.workloads.disk_room import require_room
from pgdyno.workloads.page_cache import read_in
from pgdyno.workloads.protocol import Progress, Workload


class StudyData:
    """Makes the data of a study's workloads ready; at the end of the block the databases are dropped.

    With `keep` they stay, marked, and the next study with the same data does not load again. A study that is not told
    to keep drops what it used, also what an earlier one kept: the last study decides. What a study left that was
    killed is dropped by the next one on that server. A database that another study uses is left to that one.
    """

    def __init__(self, target: Target, *, keep: bool, announce: Progress) -> None:
        self._target = target
        self._keep = keep
        self._announce = announce
        self._use = DatabaseUse(target.postgres)
        self._names: list[str] = []

    def __enter__(self) -> StudyData:
        return self

    def make_ready(self, workload: Workload, facts: Facts, *, policy: str) -> None:
        """Take the workload's databases into use and load the data; see the function `make_ready`.

        Raises EnvironmentUnsuitable, too, where another study runs the same load on this server, or is loading.
        """
        is_first = not self._names
        self._take(workload)
        if is_first:
            self._drop_left()
        make_ready(workload, self._target, facts, policy=policy, progress=self._announce)
        if self._keep:
            self._mark()

    def _take(self, workload: Workload) -> None:
        load, template = workload.databases(self._target)
        new = [name for name in (load, template) if name not in self._names]
        for name in new:
            is_shared = self._use.use(name)
            if is_shared and (name == load or owned_state(self._target.postgres, name) is not DatabaseState.COMPLETE):
                raise EnvironmentUnsuitable(
                    f'another study uses database "{name}" of {self._target.name}',
                    detail="It runs the same load, or is loading the data: two at once would disturb each other.",
                    hint="Wait until it ends.",
                )
            self._names.append(name)

    def _drop_left(self) -> None:
        """Drop what studies left that were killed; what cannot be dropped is no reason not to measure."""
        for database in own_databases(self._target.postgres):
            if database.name in self._names or not is_left(database):
                continue
            if drop_left(self._target, self._use, database) is None:
                size = "" if database.bytes is None else f" ({bytes_text(database.bytes)})"
                self._announce(f'dropped database "{database.name}"{size}, which a study left that was killed')

    def _mark(self) -> None:
        for name in self._names:
            mark_kept(self._target.postgres, name)

    def __exit__(self, *_: object) -> None:
        with self._use:
            if not self._names:
                return
            self._use.let_go()  # what follows connects again, within a time limit: the server may hang
            try:
                if self._keep:
                    self._mark()
                    self._announce("the databases of the load are kept; pgdyno cleanup drops them")
                else:
                    self._drop()
            except PgdynoError as refused:
                self._announce(
                    f"the databases of the load are still there: {refused.message}; pgdyno cleanup drops them"
                )

    def _drop(self) -> None:
        dropped = []
        for name in self._names:
            with self._use.dropping(name) as is_free:
                if not is_free:
                    self._announce(f'database "{name}" stays: another study uses it')
                elif drop_owned(self._target.postgres, name):
                    dropped.append(name)
        if dropped:
            self._announce(f"dropped the databases of the load: {', '.join(dropped)}; --keep-data keeps them")


def is_left(database: OwnDatabase) -> bool:
    """Tell whether a database of ours is what a study left that was killed: not kept, and nobody is in it."""
    look = database.look
    return look is not None and look.state is not DatabaseState.FOREIGN and not look.kept and not database.sessions


def drop_left(target: Target, use: DatabaseUse, database: OwnDatabase) -> str | None:
    """Drop a database of ours that nobody uses; return why it stays, None when it was dropped."""
    try:
        with use.dropping(database.name) as is_free:
            if not is_free:
                return "a study uses it"
            drop_unused(target.postgres, database.name)
            return None
    except PgdynoError as error:
        return error.detail or error.message


def make_ready(workload: Workload, target: Target, facts: Facts, *, policy: str, progress: Progress) -> None:
    """Prepare a workload whose runs are reset by `policy`, so that the first of them is like every other.

    The data of `workload` are made on `target`, whose free disk and memory, in bytes, are in `facts`; `progress` hears
    how far they are. Side effects on the server: those of `Workload.prepare`, and reads of files by `read_in`. Raises
    EnvironmentUnsuitable where the disk has no room for the data, and what `Workload.prepare` raises.
    """
    require_room(workload, target, facts)
    workload.prepare(target, progress=progress)
    read_in(workload, target, facts, policy=policy, progress=progress)
