"""Why a server failed during a run: a signal, a PANIC, the kernel for lack of memory, or an operator, by its log."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.model.facts import Unknown
from pgdyno.model.samples import Event
from pgdyno.probes.evidence.log_events import LogCounts
from pgdyno.probes.evidence.log_files import LogPart, by_agent, files_on_host
from pgdyno.probes.evidence.log_reader import LogReader
from pgdyno.targets.target import Target

ASKED_OF_THE_LOG = ("crash", "restart", "down")
"""The kinds of events that the views tell and cannot explain."""
READ_AT_MOST = 16 << 20


class LogWatch:
    """The part of a server's log that is written from now on. Reads only, and only when it is asked."""

    def __init__(self, target: Target) -> None:
        self._target = target
        found = files_on_host(target)
        self._begin = found if isinstance(found, Unknown) else {file.path: file.size for file in found}

    def read(self) -> LogCounts | Unknown:
        """Return what was logged since; a server that is down is no obstacle. Never raises for what cannot be read."""
        if isinstance(self._begin, Unknown):
            return self._begin
        found = files_on_host(self._target)
        if isinstance(found, Unknown):
            return found
        folders = {Path(path).parent for path in self._begin}
        remote, reader = self._target.remote, LogReader()
        for file in found:
            begin = self._begin.get(file.path)
            if begin is None and Path(file.path).parent not in folders:
                continue  # not the log that was there before: a server that is down names another
            start = max(begin or 0, file.size - READ_AT_MOST)
            if file.size > start:
                part = LogPart(file.path, file.size, start, None if remote is None else partial(by_agent, remote))
                try:
                    reader.read(part.blocks())
                except (PgdynoError, OSError) as error:
                    return Unknown(f'"{file.path}" cannot be read: {error}')
        return reader.counts


def explained(events: Iterable[Event], log: LogCounts | Unknown, *, kills_counted: bool) -> list[Event]:
    """Return the events with what the log says of crashes, restarts and a server that is down. Pure.

    `panic`: the server ended itself. `oom`: a process of it was killed while the kernel killed for lack of memory.
    `stop`: somebody asked it to shut down. What the log does not tell stays what it was, and the text says so.
    `kills_counted` says that the host's counter of kills for lack of memory was read.
    """
    known = list(events)
    is_short_of_memory = any(event.kind == "oom_kill" for event in known) if kills_counted else None
    found: list[Event] = []
    for event in known:
        if event.kind not in ASKED_OF_THE_LOG:
            found.append(event)
        elif isinstance(log, Unknown):
            found.append(Event(event.t, event.kind, f"{event.text}; its log cannot say why: {log.reason}"))
        else:
            found += _explained(event, log, is_short_of_memory)
    return found


def _explained(event: Event, log: LogCounts, is_short_of_memory: bool | None) -> Sequence[Event]:
    cause = _cause(event, log, is_short_of_memory)
    if cause is None:
        return (Event(event.t, event.kind, f"{event.text}; its log does not say why"),)
    return (cause,) if event.kind == "crash" else (cause, event)


def _cause(event: Event, log: LogCounts, is_short_of_memory: bool | None) -> Event | None:
    if log.counts.get("panics"):
        return Event(event.t, "panic", f"the server ended itself: {_without_time(log.quotes['panics'])}")
    if log.signals:
        number, name = log.signals[0], _name(log.signals[0])
        if number != signal.SIGKILL:
            return Event(event.t, "crash", f"a process of the server ended by signal {number} ({name})")
        if is_short_of_memory:
            text = "a process of the server was killed (signal 9) while the kernel killed for lack of memory"
            return Event(event.t, "oom", text)
        outside = "from outside: the kernel counted no kill for lack of memory"
        if is_short_of_memory is None:
            outside = "by whom is unknown, because the kernel's count of kills for lack of memory was not read"
        return Event(event.t, "crash", f"a process of the server ended by signal 9 ({name}), {outside}")
    if log.stops:
        return Event(event.t, "stop", f"somebody asked the server to shut down ({log.stops[0]} shutdown)")
    if log.counts.get("crashes"):  # it came up and found that it had not been shut down
        return Event(event.t, "crash", "the whole server was gone without a shutdown: its first process was killed")
    return None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown to this system"


def _without_time(sentence: str) -> str:
    return sentence[sentence.index("PANIC") :] if "PANIC" in sentence else sentence
