"""What a live study asks a person, as the dashboard shows it, and for which requests its process looks."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

from pgdyno.model.person.operator_request import REFUSALS, OperatorAction, canonical


@dataclass(frozen=True, slots=True)
class QuestionSetting:
    """One setting that a question is about: what is there, and what would be."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class QuestionFact:
    """What a person should know before they answer."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class LiveQuestion:
    """A question that waits until `until` (seconds since the epoch). `id` is drawn: no two questions are the same."""

    id: str
    title: str
    actions: tuple[OperatorAction, ...]
    until: float
    settings: tuple[QuestionSetting, ...] = ()
    facts: tuple[QuestionFact, ...] = ()

    @property
    def refusal(self) -> OperatorAction:
        """Return what saying no to it is."""
        return next(action for action in self.actions if action in REFUSALS)

    @property
    def digest(self) -> str:
        """Return what an answer names: it holds for all that the person was shown, whoever writes the store."""
        return hashlib.sha256(canonical(asdict(self))).hexdigest()


@dataclass(frozen=True, slots=True)
class LiveDesk:
    """Where a study takes requests: `run` names its process, empty where it takes none."""

    run: str = ""
    is_paused: bool = False
    question: LiveQuestion | None = None
