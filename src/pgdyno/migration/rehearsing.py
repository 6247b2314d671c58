"""One run of a rehearsal: phases begin when those that they wait for are over, each in a thread, items as they come.

What is done is in the journal; a run that follows a killed one asks for the items that were begun and not noted as
done whether they are there, and does the others. Clock, sleep and the work are handed in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from pgdyno.errors import Halted, PgdynoError
from pgdyno.migration.journal import RehearsalJournal
from pgdyno.migration.mover import ItemWatch, MoveItem, PhaseStep
from pgdyno.model.results.migrate import ItemEnd, MigrationPhase

LOOK_S = 0.05


class PhaseWork(Protocol):
    """What is done in one phase."""

    lasts: bool
    """False where its effect ends with the process: a resumed rehearsal does it again."""

    def items(self) -> tuple[MoveItem, ...]:
        """Return its items."""

    def is_done(self, item: MoveItem) -> bool:
        """Tell whether an item that a killed run had begun came to its end."""

    def run(self, items: tuple[MoveItem, ...], watch: ItemWatch) -> None:
        """Do these items; see `Mover.run`."""


@dataclass(frozen=True, slots=True)
class JournalWatch:
    """Writes what becomes of the items of one phase."""

    journal: RehearsalJournal
    phase: MigrationPhase
    kinds: Mapping[str, str]

    def began(self, key: str) -> None:
        """Note that an item begins."""
        self.journal.item(self.phase, key, "began", kind=self.kinds.get(key, ""))

    def ended(self, key: str, *, bytes: int | None = None, rows: int | None = None) -> None:
        """Note that it is done."""
        self.journal.item(self.phase, key, "ended", bytes=bytes, rows=rows)

    def sized(self, key: str, *, rows: int) -> None:
        """Note how many rows it had."""
        self.journal.item(self.phase, key, "sized", rows=rows)

    def failed(self, key: str, reason: str) -> None:
        """Note that it failed."""
        self.journal.item(self.phase, key, "failed", reason=reason)


def run_phases(
    steps: tuple[PhaseStep, ...],
    works: Mapping[MigrationPhase, PhaseWork],
    journal: RehearsalJournal,
    *,
    halt: Callable[[], str],
    interrupt: Callable[[], None],
    sleep: Callable[[float], object],
    tell: Callable[[str], None],
) -> str:
    """Run the phases to the end, and return why it ended before it; empty where it did not.

    `works` has what is done in each phase of `steps` that is not left out; `journal` has what earlier runs did, and
    gets what this one does. A phase that fails lets those beside it end; nothing that waits for it begins. `halt` says
    why to end, empty to go on; `interrupt` makes it say so, for what runs when an error or a signal ends the run.
    `sleep` is given the seconds to wait between two looks, and `tell` is told which phases begin and end, and what to
    do about one that failed.
    """
    over = {one.phase for one in steps if one.left_out or journal.state.is_over(one.phase)}
    again = [one.phase for one in steps if one.phase in over and not one.left_out and not works[one.phase].lasts]
    if not journal.state.is_over(MigrationPhase.RUN_TIME):
        for phase in again:
            works[phase].run(works[phase].items(), _Silent())
    running: dict[MigrationPhase, Future[None]] = {}
    why = ""
    with ThreadPoolExecutor(max_workers=max(1, len(steps)), thread_name_prefix="pgdyno-phase") as pool:
        try:
            while True:
                for phase, future in list(running.items()):
                    if future.done():
                        del running[phase]
                        future.result()
                        if journal.state.is_over(phase):
                            over.add(phase)
                            tell(f"{phase.value}: done")
                why = why or halt() or _failure(journal)
                due = [] if why else [one.phase for one in steps if _is_due(one, over, running)]
                for phase in due:
                    tell(f"{phase.value} begins")
                    running[phase] = pool.submit(_one, phase, works[phase], journal, halt, tell)
                if not running:
                    break
                journal.tick()
                sleep(LOOK_S)
        except BaseException:
            interrupt()
            for future in running.values():
                future.cancel()
            raise
    return why


def _is_due(step: PhaseStep, over: set[MigrationPhase], running: Mapping[MigrationPhase, object]) -> bool:
    return step.phase not in over and step.phase not in running and over.issuperset(step.after)


def _failure(journal: RehearsalJournal) -> str:
    return next((f"{phase.value} failed: {reason}" for phase, reason in journal.state.failed.items()), "")


def _one(
    phase: MigrationPhase,
    work: PhaseWork,
    journal: RehearsalJournal,
    halt: Callable[[], str],
    tell: Callable[[str], None],
) -> None:
    """Do one phase, and note how it ended; nothing where it was ended because of `halt`. `tell` hears what to do."""
    journal.phase(phase, "began")
    try:
        items = work.items()
        watch = JournalWatch(journal, phase, {one.key: one.kind for one in items})
        left = tuple(one for one in items if not _is_there(one, work, watch))
        work.run(left, watch)
    except Halted:
        return
    except PgdynoError as error:
        journal.phase(phase, "failed", error.one_line)
        if error.hint:
            tell(f"{phase.value}: {error.hint}")
        return
    done = journal.state.items
    if all((one := done.get((phase, item.key))) is not None and one.end is ItemEnd.DONE for item in items):
        journal.phase(phase, "ended")
    elif not halt():
        journal.phase(phase, "failed", "not every item was done")


def _is_there(item: MoveItem, work: PhaseWork, watch: JournalWatch) -> bool:
    known = watch.journal.state.items.get((watch.phase, item.key))
    if known is None:
        return False
    if known.end is ItemEnd.DONE:
        return True
    if known.end is ItemEnd.NOT_RUN and work.is_done(item):
        watch.ended(item.key, bytes=item.bytes)
        return True
    return False


@dataclass(slots=True)
class Halt:
    """Says why a run is to end: what is asked at each call, or that it was interrupted."""

    asked: Callable[[], str]
    interrupted: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> str:
        """Return why to end now, empty while it goes on."""
        return "an interruption" if self.interrupted.is_set() else self.asked()


class _Silent:
    """Notes nothing: what is done again was noted before."""

    def began(self, key: str) -> None: ...

    def ended(self, key: str, *, bytes: int | None = None, rows: int | None = None) -> None: ...

    def sized(self, key: str, *, rows: int) -> None: ...

    def failed(self, key: str, reason: str) -> None: ...
