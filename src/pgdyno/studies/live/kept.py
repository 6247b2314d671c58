"""A live study in the store: while it runs, and what became of it, a kill included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pgdyno.errors import EnvironmentUnsuitable, OutOfTime, StoreError, ended_by
from pgdyno.model.results.live import LiveDecision, LiveResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.course.moments import LiveCourse
from pgdyno.studies.session.ownership import owning, runner_of
from pgdyno.trial.live_row import LiveRow


def mark_killed(store: Store) -> None:
    """Call live studies interrupted that no process runs any more: a kill leaves nobody to say so."""
    for study in store.studies():
        dead = study.kind is StudyKind.LIVE and study.state is StudyState.RUNNING
        if dead and runner_of(store, study.id) is None:
            store.update_study(study.id, state=StudyState.INTERRUPTED)


@dataclass(slots=True)
class Ending:
    """The study in the store, until it has a result, with what persons decided and how it went."""

    store: Store
    study: Study
    so_far: LiveResult | None = None
    is_complete: bool = False
    is_stored: bool = False
    """The store calls it complete already, whatever ends this process later."""
    decisions: list[LiveDecision] = field(default_factory=list)
    course: LiveCourse = field(default_factory=LiveCourse)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def decide(self, decision: LiveDecision, announce: Callable[[str], None]) -> None:
        """Keep a decision; also from another thread than the study's."""
        with self._lock:
            self.decisions.append(decision)
            if self.so_far is not None:
                self.hear(self.so_far, announce)

    def hear(self, result: LiveResult, announce: Callable[[str], None]) -> None:
        """Keep what there is so far, for after a kill, too; a store that refuses has it at the end."""
        with self._lock:
            self.so_far = self._with_course(result)
            try:
                self.store.update_study(self.study.id, result=self.so_far)
            except StoreError as refused:
                announce(f"the pairs so far are not in the store yet: {refused.message}")

    def complete(self, result: LiveResult) -> LiveResult:
        """Keep the result, which is what the verb returns, too."""
        self.so_far, self.is_complete = self._with_course(result), True
        return self.so_far

    def store_complete(self, result: LiveResult) -> None:
        """Call it complete in the store at once, before a person is asked what becomes of its winner."""
        self.store.update_study(self.study.id, state=StudyState.COMPLETE, result=self.complete(result))
        self.is_stored = True

    def _with_course(self, result: LiveResult) -> LiveResult:
        return replace(result, decisions=tuple(self.decisions), moments=self.course.moments)


@contextmanager
def kept(store: Store, study: Study, now: float, *, resumes: bool = False) -> Iterator[tuple[Ending, LiveRow]]:
    """Keep the study while it runs, and say at its end, after the server was restored, what became of it.

    Gives its row on the live board, too; `now` is when that is claimed, in seconds since the epoch. Where it `resumes`,
    `study` is in `store` already, and errors are those of `owning`.
    """
    if not resumes:
        store.add_study(study)
    told = study.told(LiveResult)
    ending = Ending(store, study, told)
    if told is not None:
        ending.decisions, ending.course.kept = list(told.decisions), list(told.moments)
    with owning(store, study.id, now, resumes=resumes) as row:
        if resumes:
            store.update_study(study.id, state=StudyState.RUNNING)
        try:
            yield ending, row
        except BaseException as error:
            store.hurry()
            if ending.is_stored:
                raise
            interrupted = isinstance(error, KeyboardInterrupt | EnvironmentUnsuitable | OutOfTime)
            state = StudyState.INTERRUPTED if interrupted else StudyState.FAILED
            store.update_study(study.id, state=state, result=ending.so_far, ended=ended_by(error))
            raise
        if ending.is_complete:
            store.update_study(study.id, state=StudyState.COMPLETE, result=ending.so_far)
