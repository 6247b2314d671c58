"""The tuner's end of the line to an agent: calls, replies, and a sign of life every few seconds."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError
from pgdyno.remote import wire
from pgdyno.remote.wire import Json

MOST_BYTES = 160 << 20
"""Of one reply: a capture as large as it may be, written as JSON. What is longer ends the line."""
MOST_GREETINGS = 10_000
"""Lines that a login script may print before the agent speaks."""
_LAST_WORDS = 2000
PING_S = 5.0
HELLO_S = 60.0
_LEAVE_S = 200.0
"""An agent with an open session rolls it back before it goes; longer than a restart may take."""


class AgentClient:
    """A running agent. Calls from several threads are answered one after another, in their order.

    `reword` turns an error of the host into one for a user here, whose commands need to name the host.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        host: str,
        log: Path,
        *,
        reword: Callable[[PgdynoError], PgdynoError] = lambda error: error,
    ) -> None:
        self._process = process
        self._host = host
        self._log = log
        self._reword = reword
        self._numbers = itertools.count(1)
        self._waiting: dict[object, queue.SimpleQueue[Json | None]] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._first: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="pgdyno-agent-replies", daemon=True).start()

    @property
    def is_cut(self) -> bool:
        """Return True when no reply will come any more."""
        return self._ended.is_set()

    def first_words(self, timeout_s: float = HELLO_S) -> Json:
        """Return the first line that came from the host: the agent's hello, or why there is no agent.

        Raises ConnectError when there was none.
        """
        try:
            first = self._first.get(timeout=timeout_s)
        except queue.Empty:
            first = None
        if first is None:
            raise self._cut("the agent did not start")
        if "hello" in first:
            threading.Thread(target=self._ping, name="pgdyno-agent-ping", daemon=True).start()
        return first

    def call(self, name: str, given: Json | None = None, *, timeout_s: float | None = None) -> object:
        """Ask for something and return what came back.

        Raises what was raised on the host, as the same class; ConnectError when the line was cut, and when there is
        no reply within `timeout_s`, which is then dropped when it comes.
        """
        number = next(self._numbers)
        mine: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        with self._lock:
            self._waiting[number] = mine
        try:
            self._send({"id": number, "call": name, "with": dict(given or {})})
            reply = None if self.is_cut and mine.empty() else mine.get(timeout=timeout_s)
        except queue.Empty:
            raise ConnectError(f"{self._host} did not answer within {timeout_s:g} s") from None
        except (OSError, ValueError) as error:  # ValueError: the pipe was closed by us
            raise self._cut("the connection was lost") from error
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if reply is None:
            raise self._cut("the connection was lost")
        with wire.understood(self._host):
            if "error" not in reply:
                return reply["gives"]
            failure = wire.error_from_json(wire.mapping(reply["error"]))
        raise self._reword(failure)

    def close(self) -> None:
        """Close the agent's stdin, which ends it, and wait until it has left. Idempotent."""
        self._ended.set()
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(OSError):  # the line is cut already
                self._process.stdin.close()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait()
            raise EnvironmentUnsuitable(f"the agent on {self._host} did not leave within {_LEAVE_S:g} s") from error
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()

    def _send(self, message: Json) -> None:
        assert self._process.stdin is not None, "an agent is started with a pipe"
        with self._writing:
            self._process.stdin.write(wire.to_line(message))
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None, "an agent is started with a pipe"
        greeted, greetings = False, 0
        try:
            for line in _lines(self._process.stdout):
                if not greeted and not line.startswith(b"{"):
                    greetings += 1  # a login script of the user's says hello too
                    if greetings > MOST_GREETINGS:
                        raise ValueError("no agent among so many lines")
                    continue
                message = wire.from_line(line)
                if not greeted:
                    greeted = True
                    self._first.put(message)
                    continue
                with self._lock:
                    number = message.get("id")
                    waiting = self._waiting.get(number) if isinstance(number, int) else None
                if waiting is not None:
                    waiting.put(message)
        except (OSError, ValueError):
            # An unreadable line ends the conversation as a cut one does: who writes it is not waited for. An agent
            # of ours behind it reads that as the end of the tuner, and restores the server.
            self._process.kill()
        self._ended.set()
        self._first.put(None)
        with self._lock:
            for waiting in self._waiting.values():
                waiting.put(None)

    def _ping(self) -> None:
        while not self._ended.wait(PING_S):
            try:
                self._send({})
            except (OSError, ValueError):
                return

    def _cut(self, what: str) -> ConnectError:
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_WORDS))
                words = file.read(_LAST_WORDS).decode(errors="replace").strip()
        except OSError:
            words = ""
        return ConnectError(f"{self._host}: {what}", detail=words or None)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines. Raises ValueError at one that is longer than any reply."""
    while line := stream.readline(MOST_BYTES + 1):
        if len(line) > MOST_BYTES:
            raise ValueError("a line longer than any reply")
        yield line
