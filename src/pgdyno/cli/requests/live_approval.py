"""What a person is asked in a live study, and shown before: the server is in its baseline while they think."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import two_sides
from pgdyno.cli.requests.live_flags import ANSWER_S, CLASS_A, EACH, LiveFlags
from pgdyno.cli.terminal.live_line import begin_line
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.model.person.operator_request import OperatorAction as Action
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.owner.programs import check_program
from pgdyno.units import seconds_text

if TYPE_CHECKING:
    from pgdyno.model.person.live_question import LiveQuestion
    from pgdyno.studies.live.candidates import Reply
    from pgdyno.studies.live.person.hands import HeardAnswer, LiveHands
    from pgdyno.studies.live.run import SwitchPlan
    from pgdyno.studies.live.search_run import CandidatePlan, SearchPlan

NOTIFY_S = 10.0
LOOK_S = 0.5
"""Who waits for an answer looks so often whether the study was stopped meanwhile."""
_YES, _NO, _QUIT = ("y", "yes"), ("n", "no"), ("q", "quit")
_NEXT = re.compile(r",(?=\s*[A-Za-z_][\w.]*\s*=)")
"""A comma before another KNOB=: those within a value stay."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Waits for a person's line on standard input, for so long; `notify` is a command that tells them, word by word.

    Without a terminal it `reads` nothing, and waits for the dashboard alone.
    """

    timeout_s: float = ANSWER_S
    notify: tuple[str, ...] = ()
    reads: bool = True

    def ask(self, question: str, stop_file: str, hands: LiveHands | None = None, *, is_told: bool = False) -> str:
        """Return the line, stripped; empty for silence, at the end of the input, and when the stop file appears.

        `question` is printed to stderr; `stop_file` is the path of that file, empty for none. The wait ends, too, when
        `hands` have an answer from the dashboard; where they may have one, a terminal that goes away is not waited for
        any more and the dashboard is. Ctrl-C ends the study. One that is asked again after an edit `is_told` already:
        who types there is not called.
        """
        if self.reads:
            _forget_typed()
        waits = "" if self.reads else "\nAn operator answers it in the dashboard; what is typed here is not read.\n"
        click.echo(f"{question}{waits}", nl=False, err=True)
        if not is_told:
            self._tell(question if hands is None else hands.waiting or question)
        is_reading, ends_at = self.reads, time.monotonic() + self.timeout_s
        while (left := ends_at - time.monotonic()) > 0 and not (stop_file and Path(stop_file).exists()):
            if hands is not None and hands.has_answer:
                click.echo(err=True)
                return ""
            if not is_reading:
                time.sleep(min(left, LOOK_S))
            elif select.select([sys.stdin], [], [], min(left, LOOK_S))[0]:
                line = sys.stdin.readline()
                if line or hands is None or not hands.takes_requests:
                    return line.strip()
                is_reading = False
        click.echo("\nno answer", err=True)
        return ""

    def _tell(self, question: str) -> None:
        """Run the command, for ten seconds at most, and go on whatever becomes of it."""
        if not self.notify:
            return
        words, silent, given = [*self.notify, question], subprocess.DEVNULL, inherited(ProgramKind.PERSONAL)
        try:
            subprocess.run(words, env=given, stdin=silent, stdout=silent, timeout=NOTIFY_S, check=True)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            click.echo(f"\n--notify could not be run: {error}", err=True)


def _forget_typed() -> None:
    """Drop what was typed in this terminal before: an answer is to what was shown, and the next question is another."""
    with suppress(termios.error, OSError, ValueError):  # what is no terminal has nothing of the kind
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def notify_words(command: str | None) -> tuple[str, ...]:
    """Return the words of --notify, its program by its path; none without one.

    Raises UsageError for quotes that do not end, and EnvironmentUnsuitable for a program that is not there or that
    others could change: it runs with our rights.
    """
    if command is None:
        return ()
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f'--notify "{command}" is not a command: {error}', hint="Quote it as a shell does.") from error
    if not words:
        raise UsageError("--notify names no program", hint="Write it as --notify /usr/bin/notify-send.")
    return check_program(words[0], os.geteuid()), *words[1:]


def settings_of(words: Sequence[str], what: str, example: str = "") -> dict[str, str]:
    """Return the settings of KNOB=VALUE,... words; `what` names where they were given, `example` is a right one.

    Raises UsageError for a word that is none, or a knob that is set twice.
    """
    found: dict[str, str] = {}
    for part in (part for word in words for part in _NEXT.split(word)):
        name, value = two_sides(part, what, "KNOB=VALUE", example or f"{what} work_mem=64MB")
        if name in found:
            raise UsageError(f"{what} sets {name} twice", hint="Leave one of them out.")
        found[name] = value
    return found


def asks(approve: str, names: Sequence[str], *, restarts: bool = False) -> bool:
    """Tell whether a person is asked: always, or for what is of another class than A, such as what needs restarts."""
    from pgdyno.knobs.policy import Durability, class_of

    return approve == EACH or (
        approve == CLASS_A and (restarts or any(class_of(name) is not Durability.A for name in names))
    )


def asker_of(flags: LiveFlags) -> Asker:
    """Return who asks, as the flags say. Errors as `notify_words`."""
    reads = sys.stdin.isatty() or flags.operator_token_file is None
    return Asker(60 * flags.approve_timeout, notify_words(flags.notify), reads)


def check_answer(flags: LiveFlags, names: Sequence[str], *, restarts: bool = False) -> None:
    """Refuse, before the server is watched for half an hour, what nobody could approve; `restarts` as in `asks`."""
    if flags.operator_token_file is not None:
        return
    if asks(flags.approve, names, restarts=restarts) and not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask in, so nothing would be changed",
            detail=f"--approve {flags.approve} asks before {', '.join(names) or 'each candidate'} is set.",
            hint="Run it in a terminal, add --operator-token-file to be asked in the dashboard, or --approve auto.",
        )


def approve(plan: SwitchPlan, asker: Asker | None) -> bool:
    """Print the plan and, where somebody is to be asked, wait for their answer: the server is in its baseline."""
    from pgdyno.cli.requests.study import say_wrapped

    begin_line()
    say_wrapped("target", plan.target)
    how = "by reload" if plan.restarts is None else "by restart where one is needed"
    for name, found in plan.arms.before.items():
        a, b = plan.arms.a.get(name, found), plan.arms.b.get(name, found)
        say_wrapped("set", f"{name}: {b} under B, {a} under A, now {found}; {how}")
    say_wrapped("plan", plan.periods)
    say_wrapped("shows", plan.effect)
    _say_undo(plan, plan.outage)
    if plan.is_approved:
        say_wrapped("approved", "before it was ended, as all of the study is")
        return True
    if asker is None:
        plan.hands.unasked()
        return True
    question = plan.question(asker.timeout_s)
    plan.hands.ask(question)
    line = f"Approve? No answer within {seconds_text(asker.timeout_s)} means no. [y/N]: "
    word = asker.ask(line, plan.stop_file, plan.hands)
    answer = plan.hands.settle(_heard(word, question))
    return answer is not None and answer.action is Action.APPROVE


def confirm(asker: Asker) -> Callable[[LiveHands], Callable[[LiveQuestion], HeardAnswer | None]]:
    """Return what asks a question of a live study in the terminal and in the dashboard, and says what the answer is."""
    from pgdyno.cli.requests.study import say_wrapped

    def of_study(hands: LiveHands) -> Callable[[LiveQuestion], HeardAnswer | None]:
        def ask(question: LiveQuestion) -> HeardAnswer | None:
            begin_line()
            click.echo(err=True)
            for one in question.settings:
                say_wrapped("set", f"{one.name}: {one.before} -> {one.after}")
            for fact in question.facts:
                say_wrapped(fact.label, fact.text)
            hands.ask(question)
            stop_file = "" if hands.stop is None else str(hands.stop.path)
            word = asker.ask(f"{question.title} [y/N]: ", stop_file, hands)
            return hands.settle(_heard(word, question))

        return ask

    return of_study


def _heard(word: str, question: LiveQuestion) -> HeardAnswer | None:
    """Return what a line of the terminal says to a question; None for silence."""
    from pgdyno.studies.live.person.hands import typed

    return typed(question.actions[0] if word.lower() in _YES else question.refusal) if word else None


def show_search(plan: SearchPlan) -> None:
    """Print what a search would do."""
    from pgdyno.cli.requests.study import say_wrapped
    from pgdyno.studies.live.person.questions import RELOAD

    begin_line()
    say_wrapped("target", plan.target)
    say_wrapped("search", ", ".join(f"{name} (now {value})" for name, value in plan.knobs.items()))
    tried = f"at most {plan.candidates} candidates, each against the server as it is, in periods of {plan.period_s:g} s"
    say_wrapped("plan", f"{tried}; the best by fresh pairs; at most {seconds_text(plan.left_s)}")
    _say_undo(plan, RELOAD)


def decide(plan: CandidatePlan, asker: Asker | None) -> Reply:
    """Print a candidate and, where somebody is to be asked, wait: yes, no, the end, or KNOB=VALUE to edit it."""
    from pgdyno.cli.requests.study import say_wrapped
    from pgdyno.model.configuration import Configuration
    from pgdyno.studies.live.candidates import Reply
    from pgdyno.studies.live.person.hands import typed

    proposal = plan.proposal
    if asker is None:
        plan.hands.unasked()
        return Reply(proposal.settings)
    settings, before, hands = dict(proposal.settings), dict(plan.before), plan.hands
    is_told = False
    while True:
        changes = ", ".join(f"{name}: {before.get(name, 'as found')} -> {value}" for name, value in settings.items())
        begin_line()
        click.echo(err=True)
        say_wrapped("try", f"{proposal.name} ({plan.origin(settings)}): {changes}; by reload, no outage")
        say_wrapped("so far", proposal.learnt)
        left = seconds_text(asker.timeout_s)
        question = plan.question(settings, asker.timeout_s)
        hands.ask(question, plan.check)
        edits = ", KNOB=VALUE edits" if plan.can_be_edited else ""
        word = asker.ask(
            f"Try it? y, n, q ends the search{edits}; no answer within {left} means n: ", plan.stop_file, hands,
            is_told=is_told,
        )  # fmt: skip
        is_told = True
        is_edit = bool(word) and word.lower() not in (*_YES, *_NO, *_QUIT)
        mine = None if is_edit else typed(Action.END) if word.lower() in _QUIT else _heard(word, question)
        answer = hands.settle(mine)
        if not is_edit or answer is not None:
            action = None if answer is None else answer.action
            if answer is not None and answer.settings is not None:
                return Reply(answer.settings)
            return Reply(Configuration.of(settings) if action is Action.APPROVE else None, ends=action is Action.END)
        try:
            settings = dict(plan.check(Configuration.of(settings | _edited(word, plan))))
        except PgdynoError as error:
            click.echo(f"{error.message}. {error.hint or ''}", err=True)


def _edited(word: str, plan: CandidatePlan) -> dict[str, str]:
    from pgdyno.knobs.policy import refuse

    if not plan.can_be_edited:
        raise UsageError(f"{plan.proposal.name} cannot be edited", hint="Answer y, n or q.")
    found = settings_of([word], "the answer", "y, n, q or work_mem=64MB")
    for name in found:
        refuse(name, known=())
    return found


def _say_undo(plan: SwitchPlan | SearchPlan, outage: str) -> None:
    from pgdyno.cli.requests.study import say_wrapped

    say_wrapped("outage", outage)
    say_wrapped(
        "undo", "automatic: at the end, on Ctrl-C, at a guard's breach; after a kill by the watchdog, or by this:"
    )
    stop, pause = (f"touch {shlex.quote(file)}" for file in (plan.stop_file, plan.pause_file))
    for label, command in (("", plan.rollback), ("stop", stop), ("pause", f"{pause}  # continues when it is removed")):
        click.echo(f"{label:<9}{command}", err=True)  # not wrapped: to be copied
    for note in plan.notes:
        say_wrapped("note", note)
