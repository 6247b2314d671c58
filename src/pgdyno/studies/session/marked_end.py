"""How a study that did not come to its end is marked: interrupted or failed, and by what error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pgdyno.errors import EnvironmentUnsuitable, RollbackError, ScriptError, StoreError, ended_by
from pgdyno.model.study import Study, StudyState
from pgdyno.store.catalogue import Store
from pgdyno.trial.stopwatch import BudgetSpent
from pgdyno.undo.session import ServerSession


@dataclass
class MarkedEnd:
    """Marks a study that did not come to its end, after its server was restored: a store may keep one waiting."""

    store: Store
    study: Study
    announce: Callable[[str], None]
    state: StudyState | None = None
    why: str = ""

    def __enter__(self) -> MarkedEnd:
        return self

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        if self.state is None and error is not None and not isinstance(error, RollbackError):
            self.note(error)
        if self.state is None:
            return
        try:
            self.store.update_study(self.study.id, state=self.state, ended=self.why)
        except StoreError as refused:
            self.announce(f"study {self.study.id} could not be marked {self.state.value}: {refused.message}")

    def note(self, error: BaseException) -> None:
        """Take this error for what ends the study."""
        self.state, self.why = _state_after(error), ended_by(error)


def _state_after(error: BaseException) -> StudyState:
    is_final = isinstance(error, BudgetSpent | ScriptError)
    interrupted = isinstance(error, KeyboardInterrupt | EnvironmentUnsuitable) and not is_final
    return StudyState.INTERRUPTED if interrupted else StudyState.FAILED


@contextmanager
def told_end(
    ending: MarkedEnd, resumed_by: str | None, session: ServerSession | None, announce: Callable[[str], None]
) -> Iterator[None]:
    """Note how the study ends before its server is restored, and say how it can be continued.

    The error that ends it is noted in `ending`, which marks the study after that. `resumed_by` is the verb that
    continues such a study, such as "tune", None or empty where none does. `session` restores the server after this
    block, None where nothing is changed. `announce` takes sentences for people.
    """
    try:
        yield
    except BaseException as error:
        ending.store.hurry()
        ending.note(error)
        if ending.state is StudyState.INTERRUPTED and resumed_by:
            announce(f"to continue: pgdyno {resumed_by} --resume {ending.study.id}")
        raise
    finally:
        if session is not None:
            announce("restoring the server")
