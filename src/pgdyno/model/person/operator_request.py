"""What an operator asks of a running study in the dashboard: recorded, signed, and carried out by the study alone.

The store may be written by others. So a request is signed with the operator's own token, names the process and the
question that it is meant for, and is carried out once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum

from pgdyno.errors import UsageError

SHORTEST_OPERATOR_TOKEN = 32
"""Signatures stand in the store, where a short token could be guessed at leisure."""
MOST_OPERATORS = 100
LONGEST_WHY = 500
MOST_SETTINGS, LONGEST_SETTING = 50, 200
OPERATOR_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class OperatorAction(StrEnum):
    """What can be asked of a study: an answer to its question, or an order."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    END = "end"
    KEEP = "keep"
    LEAVE_OUT = "do not keep"
    UNDO = "undo"
    LEAVE_IN = "leave in force"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


ORDERS = frozenset({OperatorAction.PAUSE, OperatorAction.RESUME, OperatorAction.STOP})
"""What needs no question."""


REFUSALS = frozenset({OperatorAction.REJECT, OperatorAction.LEAVE_OUT, OperatorAction.LEAVE_IN})
"""What says no to a question, each to another kind of it: people read these words in the record."""


class RequestState(StrEnum):
    """What became of a request."""

    WAITING = "waiting"
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class OperatorRequest:
    """One request. `run` names the process of the study that it is meant for, `question` what it answers.

    `settings` are those of an edit. `at` and `answered_at` are seconds since the epoch; `state`, `said` and
    `answered_at` are the study's answer, and no part of what is signed.
    """

    id: str
    study: str
    run: str
    action: OperatorAction
    who: str
    why: str
    at: float
    question: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    signature: str = ""
    state: RequestState = RequestState.WAITING
    said: str = ""
    answered_at: float | None = None

    def content(self) -> dict[str, object]:
        """Return what is signed, as plain JSON values."""
        values = asdict(self)
        for name in ("signature", "state", "said", "answered_at"):
            del values[name]
        return values

    def to_json(self) -> dict[str, object]:
        """Return what the operator gave, and the signature."""
        return {**self.content(), "signature": self.signature}

    @classmethod
    def from_json(cls, values: object) -> OperatorRequest:
        """Rebuild what `to_json` gave. Raises ValueError for anything else: others may write the store."""
        if not isinstance(values, dict) or set(values) != {one.name for one in fields(cls)} - _OF_THE_STUDY:
            raise ValueError("not the fields of a request")
        texts = {name: values[name] for name in ("id", "study", "run", "who", "why", "question", "signature")}
        settings, at = values["settings"], values["at"]
        if not all(isinstance(one, str) and len(one) <= 2 * LONGEST_WHY for one in texts.values()):
            raise ValueError("a text of a request is none, or too long")
        if isinstance(at, bool) or not isinstance(at, int | float):
            raise ValueError("the time of a request is no number")
        if not isinstance(settings, dict) or len(settings) > MOST_SETTINGS:
            raise ValueError("the settings of a request are none")
        if not all(isinstance(one, str) and len(one) <= LONGEST_SETTING for pair in settings.items() for one in pair):
            raise ValueError("a setting of a request is no text, or too long")
        return cls(**texts, action=OperatorAction(values["action"]), at=float(at), settings=settings)


_OF_THE_STUDY = {"state", "said", "answered_at"}


@dataclass(frozen=True, slots=True)
class Operators:
    """Who may act, by their names, with their tokens."""

    tokens: Mapping[str, str] = field(repr=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def named_by(self, token: str) -> str | None:
        """Return whose token this is; every one is compared, and each in constant time."""
        found = None
        for name, known in self.tokens.items():
            if hmac.compare_digest(token.encode(), known.encode()):
                found = name
        return found

    def sign(self, request: OperatorRequest) -> OperatorRequest:
        """Return the request with the signature of the operator that it names. Raises KeyError for a stranger."""
        return replace(request, signature=self._signature(request))

    def has_signed(self, request: OperatorRequest) -> bool:
        """Return whether the operator that a request names has signed it as it is."""
        if request.who not in self.tokens or not request.signature.isascii():
            return False
        return hmac.compare_digest(self._signature(request), request.signature)

    def _signature(self, request: OperatorRequest) -> str:
        key = hmac.new(self.tokens[request.who].encode(), b"pgdyno operator request", hashlib.sha256).digest()
        return hmac.new(key, canonical(request.content()), hashlib.sha256).hexdigest()


def canonical(content: Mapping[str, object]) -> bytes:
    """Return JSON values as bytes, the same for the same content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=True).encode()


def operators_of(text: str, where: str) -> Operators:
    """Read lines of NAME TOKEN, or of one TOKEN alone; `where` names their file.

    Raises UsageError for a line that is neither, a short token, and a name or a token that comes twice.
    """
    found: dict[str, str] = {}
    lines = [line.split() for line in text.splitlines() if line.strip()]
    for number, words in enumerate(lines, 1):
        name, token = words if len(words) == 2 else ("operator", words[0])
        if len(words) > 2 or not OPERATOR_NAME.fullmatch(name):
            raise UsageError(f'line {number} of "{where}" is not NAME TOKEN', hint="Write one operator on each line.")
        if len(token) < SHORTEST_OPERATOR_TOKEN or not token.isascii() or not token.isprintable():
            raise UsageError(
                f'the token of {name} in "{where}" is not {SHORTEST_OPERATOR_TOKEN} or more plain characters',
                hint="Remove the file: a new one is made.",
            )
        if name in found or token in found.values():
            raise UsageError(f'line {number} of "{where}" names an operator or a token again', hint="Leave one out.")
        found[name] = token
    if not found or len(found) > MOST_OPERATORS:
        raise UsageError(f'"{where}" names {len(found)} operators', hint="Remove the file: a new one is made.")
    return Operators(found)
