"""What one check of the preflight says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check ended. Only REFUSED keeps a configuration from being applied."""

    OK = "ok"
    REFUSED = "refused"
    NOTE = "note"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the preflight. `asked` and `there` are the two figures that were compared, for people.

    `sentence` is a full account in PostgreSQL's grammar; of NOT_APPLICABLE it is the reason.
    """

    check: str
    state: State
    sentence: str
    asked: str | None = None
    there: str | None = None
    hint: str | None = None


def passed(check: str, sentence: str, *, asked: str | None = None, there: str | None = None) -> Result:
    """Return a check that found nothing in the way.

    `check` is its name, `sentence` what it found; `asked` and `there` are as in `Result`, None where none was compared.
    """
    return Result(check, State.OK, sentence, asked, there)


def refused(check: str, sentence: str, *, asked: str | None = None, there: str | None = None, hint: str) -> Result:
    """Return a check that keeps the configuration from being applied; the hint says what to do.

    `check`, `sentence`, `asked` and `there` are as in `passed`.
    """
    return Result(check, State.REFUSED, sentence, asked, there, hint)


def noted(
    check: str, sentence: str, *, asked: str | None = None, there: str | None = None, hint: str | None = None
) -> Result:
    """Return a check that a reader should know of, and that is no reason to stop.

    `check`, `sentence`, `asked` and `there` are as in `passed`; `hint` says what to do about it, None where there is
    nothing to do.
    """
    return Result(check, State.NOTE, sentence, asked, there, hint)


def not_applicable(check: str, reason: str) -> Result:
    """Return a check that cannot or need not be made here, with the reason."""
    return Result(check, State.NOT_APPLICABLE, reason)
