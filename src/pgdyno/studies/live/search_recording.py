"""What a search on a live server has heard so far, in the order in which it heard it, so that a killed one can go on.

A search is a pure function of its options, its seed and what it hears: the answers of a person, what comparisons came
to, and how long it all took. All of that is kept in the folder of the run; a search that is resumed is run again, and
is handed it. The pairs of a comparison that was cut off are in a folder of its own, and it goes on from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.guard import Breach
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.shapes import plain, shaped
from pgdyno.outputs import write_output
from pgdyno.server import places
from pgdyno.studies.live.candidates import Proposal, Reply
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.recording import Recording
from pgdyno.trial.live_cycle import LiveEnding


@dataclass(frozen=True, slots=True)
class SearchBegun:
    """The search began, with so many seconds before it."""

    left_s: float


@dataclass(frozen=True, slots=True)
class Answered:
    """What a person said to a proposal; `settings` None is a rejection, `ends` the end of the search."""

    proposed: dict[str, str]
    settings: dict[str, str] | None
    ends: bool

    @classmethod
    def of(cls, proposal: Proposal, reply: Reply) -> Answered:
        """Return a reply as it is kept."""
        said = None if reply.settings is None else dict(reply.settings)
        return cls(dict(proposal.settings), said, reply.ends)

    @property
    def reply(self) -> Reply:
        """Return the reply as the search heard it."""
        return Reply(None if self.settings is None else Configuration.of(self.settings), self.ends)


@dataclass(frozen=True, slots=True)
class DuelBegun:
    """A comparison of B with A began."""

    a: dict[str, str]
    b: dict[str, str]


@dataclass(frozen=True, slots=True)
class DuelEnded:
    """It ended so; its pairs are in its folder."""

    ending: LiveEnding
    lost: dict[str, int]
    breaches: tuple[Breach, ...]
    period_s: float
    wash_s: float
    stopped: str
    is_asked: bool
    plans: tuple[PlanChange, ...] = ()

    @classmethod
    def of(cls, outcome: LiveOutcome) -> DuelEnded:
        """Return what of an outcome does not follow from its pairs."""
        return cls(
            outcome.ending, dict(outcome.lost), outcome.breaches, outcome.period_s, outcome.wash_s, outcome.stopped,
            outcome.is_asked, outcome.plans,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rested:
    """The server was left alone for a while."""


Event = SearchBegun | Answered | DuelBegun | DuelEnded | Rested
_KINDS: Mapping[str, type[Event]] = {
    "begin": SearchBegun, "answer": Answered, "compared": DuelBegun, "ended": DuelEnded, "rested": Rested,
}  # fmt: skip
_WORDS = {kind: word for word, kind in _KINDS.items()}


@dataclass(slots=True)
class SearchRecording:
    """What a search heard, in `folder`, which is private; `at` is when the latest was heard, in its own seconds."""

    folder: Path
    at: float = 0.0
    _heard: list[tuple[float, Event]] = field(default_factory=list)
    _next: int = 0

    @property
    def path(self) -> Path:
        """Return the file."""
        return self.folder / "search.json"

    def load(self) -> None:
        """Read what was heard before, to be handed out again. Raises UsageError where it is not one of ours."""
        try:
            rows = json.loads(self.path.read_text()) if self.path.exists() else []
            self._heard = [(float(at), shaped(_KINDS[word], values, word)) for word, at, values in rows]
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise UsageError(
                f'"{self.path}" is damaged, or not of this study', hint="Start a new study, without --resume."
            ) from error

    @property
    def told_at(self) -> float:
        """Return when the latest of all was heard, whether it was handed out again or not."""
        return self._heard[-1][0] if self._heard else 0.0

    @property
    def is_recalling(self) -> bool:
        """Return whether there is something left that was heard before."""
        return self._next < len(self._heard)

    def recall(self, kind: type[Event]) -> Event | None:
        """Return the next that was heard, None after the last.

        Raises UsageError where it is of another kind: another version of pgdyno would search another way.
        """
        if not self.is_recalling:
            return None
        at, event = self._heard[self._next]
        self.require(isinstance(event, kind))
        self._next, self.at = self._next + 1, at
        return event

    def require(self, is_same: bool) -> None:
        """Raise UsageError where the search does not go the way that it went."""
        if not is_same:
            raise UsageError(
                "the search cannot be followed: it would now take another course than before it was ended",
                detail="Another version of pgdyno began it, or the server has other settings now.",
                hint="Start a new study, without --resume.",
            )

    def keep(self, event: Event, at: float) -> None:
        """Keep one more, heard `at` seconds after the search began."""
        self._heard.append((at, event))
        self._next, self.at = len(self._heard), at
        rows = [(_WORDS[type(one)], moment, plain(one)) for moment, one in self._heard]
        write_output(self.path, json.dumps(rows))

    def pairs(self, number: int) -> Recording:
        """Return where the pairs of a comparison are."""
        return Recording(places.ensure(self.folder / f"comparison-{number:03}"))
