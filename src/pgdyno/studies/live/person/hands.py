"""The person's hands on a live study: its questions, and the first answer to each, from the terminal or the dashboard.

The dashboard puts signed requests into the store. This process looks for them once a second, and is the only one that
acts: whoever writes the store without an operator's token gets nothing carried out, and nothing twice. A request that
does not answer what waits just now is refused and told so.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pgdyno.errors import PgdynoError, StoreError
from pgdyno.model.configuration import Configuration
from pgdyno.model.person.live_question import LiveDesk, LiveQuestion
from pgdyno.model.person.operator_request import (
    ORDERS,
    OperatorAction,
    OperatorRequest,
    Operators,
    RequestState,
)
from pgdyno.model.results.live import LiveDecision
from pgdyno.outputs import open_new
from pgdyno.report.wording import settings_text
from pgdyno.store.requests import RequestBoard, RequestRow
from pgdyno.studies.live.world import StopFile
from pgdyno.studies.who import who

LOOK_S = 1.0
TERMINAL, DASHBOARD, COMMAND = "terminal", "dashboard", "command line"

Check = Callable[[Configuration], Configuration]
Verdict = tuple[RequestState, str]


class PairsStage(StrEnum):
    """Where a study stands with its pairs, by which a pause means something else."""

    BEFORE = "before the first"
    GOING = "going on"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class HeardAnswer:
    """What a person said to a question, and where; `settings` are those of an edit."""

    action: OperatorAction
    who: str
    where: str
    why: str = ""
    settings: Configuration | None = None


@dataclass(frozen=True, slots=True)
class Inbox:
    """Where requests to a study come in, and whose are heeded."""

    board: RequestBoard
    operators: Operators


def _unedited(settings: Configuration) -> Configuration:
    return settings


@dataclass(eq=False)
class LiveHands:
    """The questions of one study and the orders to it. Without an `inbox` the terminal alone is heard.

    `target` is what people call its server. `decided` keeps each decision before it is acted on, `show` has what the
    dashboard shows, `announce` tells. Whoever runs the pairs says at which `stage` the study is.
    A context: within it requests are looked for, and at its end those that wait are refused. What it made of the stop
    and the pause file goes with it.
    """

    study: str = ""
    stop: StopFile | None = None
    pause: Path | None = None
    decided: Callable[[LiveDecision], None] = lambda _decision: None
    show: Callable[[LiveDesk], None] = lambda _desk: None
    announce: Callable[[str], None] = lambda _text: None
    inbox: Inbox | None = None
    target: str = ""
    clock: Callable[[], float] = time.time
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    stage: PairsStage = PairsStage.BEFORE
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _question: LiveQuestion | None = None
    _check: Check = _unedited
    _answer: HeardAnswer | None = None
    _settled: tuple[str, HeardAnswer | None] = ("", None)
    _told: dict[int, Verdict] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _made: set[Path] = field(default_factory=set)
    _shown: LiveDesk | None = None
    _is_over: bool = False
    _is_unasked: bool = False

    def __enter__(self) -> LiveHands:
        self._show()
        if self.inbox is not None:
            self._thread = threading.Thread(target=self._look, name="pgdyno-hands", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join(10 * LOOK_S)
        self._is_over = True
        self.turn()
        for path in self._made:
            if why := _unmade(path):
                self.announce(why)

    @property
    def takes_requests(self) -> bool:
        """Return whether the dashboard may answer."""
        return self.inbox is not None

    @property
    def has_answer(self) -> bool:
        """Return whether the dashboard has answered what waits, or ended the study."""
        return self._answer is not None or (self.stop is not None and bool(self.stop.told))

    @property
    def waiting(self) -> str:
        """Return what waits for an answer, for who is not before the screen: the server, the question, the study."""
        question = self._question
        if question is None:
            return ""
        where, study = self.target and f"{self.target}: ", self.study and f" (pgdyno live, study {self.study})"
        return f"{where}{_asked(question)}{study}"

    def ask(self, question: LiveQuestion, check: Check = _unedited) -> None:
        """Let a question wait; `check` returns what an edit comes to, or raises why it cannot be."""
        with self._lock:
            self._question, self._check, self._answer = question, check, None
        self._show()

    def settle(self, mine: HeardAnswer | None) -> HeardAnswer | None:
        """Close the question and return the answer that counts: the dashboard's where it came first, else `mine`.

        None is silence, or a question that is asked anew after an edit.
        """
        with self._lock:
            question, theirs = self._question, self._answer
            self._question = self._answer = None
            self._settled = ("" if question is None else question.digest, theirs or mine)
        if theirs is None and mine is not None:
            self._keep(mine, question)
        self._show()
        return theirs or mine

    def unasked(self) -> None:
        """Keep once that the user of this process wanted not to be asked."""
        if not self._is_unasked:
            self._is_unasked = True
            self.decided(LiveDecision(at=self.clock(), who=who(), where=COMMAND, asked="", answer="approve unasked"))

    def turn(self) -> None:
        """Look once for requests, and answer each."""
        if self.inbox is None:
            return
        try:
            for row in self.inbox.board.waiting(self.study):
                if row.number not in self._told:
                    self._told[row.number] = self._judged(row)
                self.inbox.board.settle(row.number, *self._told[row.number], self.clock())
        except StoreError:
            return  # the next look says again what became of it

    def _look(self) -> None:
        while not self._ending.wait(LOOK_S):
            self.turn()
            self._show()

    def _show(self) -> None:
        is_paused = self.pause is not None and self.pause.exists()
        desk = LiveDesk(self.run if self.takes_requests else "", is_paused, self._question)
        if desk != self._shown:
            self._shown = desk
            self.show(desk)

    def _judged(self, row: RequestRow) -> Verdict:
        assert self.inbox is not None, "it came in there"
        request = row.request
        if request is None or request.study != self.study or not self.inbox.operators.has_signed(request):
            return RequestState.REFUSED, "no operator of this study signed it"
        if request.run != self.run:
            return RequestState.REFUSED, "it was meant for an earlier process of this study"
        if request.id in self._taken:
            return RequestState.REFUSED, "it was taken before"
        self._taken.add(request.id)
        if self._is_over:
            return RequestState.REFUSED, "the study has ended"
        return self._ordered(request) if request.action in ORDERS else self._answered(request)

    def _ordered(self, request: OperatorRequest) -> Verdict:
        assert self.stop is not None, "a study that takes requests has one"
        assert self.pause is not None, "a study that takes requests has one"
        match request.action:
            case OperatorAction.PAUSE:
                if self.stage is PairsStage.OVER:
                    return RequestState.REFUSED, "its pairs are over, and nothing is left to pause"
                if why := self._make(self.pause):
                    return RequestState.REFUSED, why
                said = self._of_pause()
            case OperatorAction.RESUME:
                if why := _unmade(self.pause):
                    return RequestState.REFUSED, why
                said = "it continues"
            case _:
                self.stop.told = f"{request.who} stopped it in the dashboard"
                self._make(self.stop.path)  # for whoever looks for it: the study ends without it too
                said = "it ends, and the server is restored"
        # The request is on record already, and a stop waits for no store.
        self._keep(HeardAnswer(request.action, request.who, DASHBOARD, request.why), None)
        return RequestState.DONE, said

    def _of_pause(self) -> str:
        """Say what a pause does by where the study stands: before the first pair there is none to end first."""
        if self._question is not None:
            return "after an answer it waits in its baseline"
        if self.stage is PairsStage.BEFORE:
            return "the reference is watched to its end; before the first pair it waits in its baseline"
        return "it waits in its baseline after the pair at hand"

    def _make(self, path: Path) -> str:
        """Make a file that goes with the study; return why it is not there, empty where it is."""
        if path.exists():
            return ""
        try:
            open_new(path).close()
        except OSError as error:
            return f'"{path}" cannot be made: {error.strerror}'
        except PgdynoError as error:
            return error.one_line
        self._made.add(path)
        return ""

    def _answered(self, request: OperatorRequest) -> Verdict:
        with self._lock:
            question, answer = self._question, self._answer
            digest, last = self._settled
            if question is not None and question.digest == request.question:
                if answer is not None:
                    return RequestState.REFUSED, _was_first(answer)
                if request.action not in question.actions:
                    return RequestState.REFUSED, f'"{question.title}" cannot be answered so'
                settings = None
                if request.action is OperatorAction.EDIT:
                    try:
                        settings = self._check(Configuration.of(request.settings))
                    except PgdynoError as error:
                        return RequestState.REFUSED, f"{error.message}. {error.hint or ''}".rstrip()
                heard = HeardAnswer(request.action, request.who, DASHBOARD, request.why, settings)
                self._keep(heard, question)
                self._answer = heard
                return RequestState.DONE, "it is the answer"
            if digest == request.question and last is not None:
                return RequestState.REFUSED, _was_first(last)
            waits = "nothing waits for an answer" if question is None else f'"{question.title}" waits now'
            return RequestState.REFUSED, f"what it answers does not wait any more: {waits}"

    def _keep(self, heard: HeardAnswer, question: LiveQuestion | None) -> None:
        answer = heard.action.value
        if heard.settings is not None:
            answer = f"{answer}: {settings_text(heard.settings)}"
        asked = "" if question is None else _asked(question)
        self.decided(LiveDecision(at=self.clock(), who=heard.who, where=heard.where, asked=asked, answer=answer,
                                  why=heard.why))  # fmt: skip
        if heard.where == DASHBOARD:
            self.announce(f"{heard.who} in the dashboard: {answer}{f' ({heard.why})' if heard.why else ''}")


def typed(action: OperatorAction, settings: Mapping[str, str] | None = None) -> HeardAnswer:
    """Return what the user of this process said in the terminal."""
    return HeardAnswer(action, who(), TERMINAL, settings=None if settings is None else Configuration.of(settings))


def _asked(question: LiveQuestion) -> str:
    return f"{question.title} {settings_text({one.name: one.after for one in question.settings})}".rstrip()


def _unmade(path: Path) -> str:
    """Take a file away; return why it is there still, empty where it is gone."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return f'"{path}" cannot be taken away: {error.strerror}'
    return ""


def _was_first(answer: HeardAnswer) -> str:
    return f"{answer.who} answered it first, in the {answer.where}: {answer.action.value}"
