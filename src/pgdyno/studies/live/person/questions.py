"""What a live study asks, in the words of the dashboard; the terminal says the same in lines. Pure."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

from pgdyno.model.person.live_question import LiveQuestion, QuestionFact, QuestionSetting
from pgdyno.model.person.operator_request import OperatorAction as Action
from pgdyno.units import seconds_text

RELOAD = "none: reloads only"
WAITS = "in its baseline, until a person has answered"
UNDONE = "by itself: at the end, at a guard's breach, when it is stopped; after a kill by the watchdog"


def candidate_question(
    settings: Mapping[str, str],
    before: Mapping[str, str],
    *,
    title: str,
    origin: str,
    learnt: str,
    seconds: float,
    can_be_edited: bool = True,
) -> LiveQuestion:
    """Return the question before a candidate, which waits for so many seconds from now.

    `settings` are the candidate's values and `before` those as found, both by knob; `title` is the question itself.
    `origin` says why it is tried and `learnt` what those before it came to, in words. EDIT is among the answers where
    it `can_be_edited`.
    """
    facts = (("why tried", origin), ("so far", learnt), ("outage", RELOAD), ("undo", UNDONE))
    edits = (Action.EDIT,) if can_be_edited else ()
    actions = (Action.APPROVE, *edits, Action.REJECT, Action.END)
    return _question(title, actions, seconds, _rows(settings, before), facts)


def plan_question(
    b: Mapping[str, str],
    a: Mapping[str, str],
    *,
    target: str,
    plan: str,
    effect: str,
    notes: tuple[str, ...],
    seconds: float,
    outage: str = RELOAD,
) -> LiveQuestion:
    """Return the question before two arms are compared: `a` are the values of A, as found where it sets none.

    `b` are those of B likewise, by knob. In words, `target` is the server's name, `plan` how periods and pairs go,
    `effect` what they can show, and `outage` what the switches cost users. `notes` are sentences on what else to know,
    none where empty. `seconds` is how long an answer is waited for.
    """
    facts = [("target", target), ("plan", plan), ("shows", effect), ("outage", outage), ("undo", UNDONE)]
    facts += [("note", note) for note in notes]
    return _question("Compare B with A?", (Action.APPROVE, Action.REJECT), seconds, _rows(b, a), facts)


def keep_question(
    settings: Mapping[str, str], before: Mapping[str, str], *, verdict: str, where: str, undo: str, seconds: float
) -> LiveQuestion:
    """Return the question whether what was found is put in force for good.

    `before` are the values that `settings` have now, both by knob; `verdict` is the sentence on what was found, left
    out where empty. `where` is what they are written to, `undo` the command that takes them back, `seconds` how long an
    answer is waited for.
    """
    facts = (("found", verdict), ("written to", where), ("outage", RELOAD), ("undo", undo))
    return _question("Keep these settings?", (Action.KEEP, Action.LEAVE_OUT), seconds, _rows(settings, before), facts)


def undo_question(settings: Mapping[str, str], before: Mapping[str, str], *, undo: str, seconds: float) -> LiveQuestion:
    """Return the question whether what was kept is taken back again.

    `settings`, `undo` and `seconds` are as in `keep_question`; `before` are the values that come back.
    """
    left = seconds_text(seconds)
    facts = (("now", "in force for good"), ("later", f"{undo}; this question goes after {left}, and they stay"))
    actions = (Action.UNDO, Action.LEAVE_IN)
    return _question("Take these settings back?", actions, seconds, _rows(before, settings), facts)


def _rows(settings: Mapping[str, str], before: Mapping[str, str]) -> tuple[QuestionSetting, ...]:
    return tuple(QuestionSetting(name, before.get(name, "as found"), value) for name, value in settings.items())


def _question(
    title: str,
    actions: tuple[Action, ...],
    seconds: float,
    settings: tuple[QuestionSetting, ...],
    facts: tuple[tuple[str, str], ...] | list[tuple[str, str]],
) -> LiveQuestion:
    told = tuple(QuestionFact(label, text) for label, text in facts if text)
    return LiveQuestion(secrets.token_hex(8), title, actions, time.time() + seconds, settings, told)
