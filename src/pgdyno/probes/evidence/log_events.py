"""What the messages of a server's log mean, counted: pure, in English only, without statements and their values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pgdyno.model.evidence import Checkpoint, LogEvidence
from pgdyno.model.facts import Unknown
from pgdyno.probes.evidence.checkpoint_lines import NO_START, parse_complete, started_cause, too_frequent_gap
from pgdyno.probes.evidence.log_lines import LogLine
from pgdyno.probes.evidence.log_settings import MARKS as SETTING_MARKS
from pgdyno.probes.evidence.log_settings import RESTS_ON, changed_setting, is_start, without_value

MARKS = (
    b"point starting:",
    b"point complete:",
    b"occurring too frequently",
    b"was terminated by signal",
    b"not properly shut down",
    b"temporary file: path",
    b"automatic vacuum",
    b"automatic aggressive vacuum",
    b"automatic analyze",
    b"deadlock detected",
    b"still waiting for",
    b"PANIC",
    b"connection received:",
    b"connection authorized:",
    b"Consider increasing the configuration parameter",
    b" shutdown request",
    *SETTING_MARKS,
)
"""Parts of the messages that are understood; a line without one of them is counted and left."""

_SIGNAL = re.compile(r"(.*)\(PID \d+\) was terminated by signal (\d{1,9})(?::|$)")
_TEMP_FILE = re.compile(r'temporary file: path ".*", size (\d{1,18})$')
_VACUUM = re.compile(r"automatic (?:aggressive )?vacuum (?:to prevent wraparound )?of table ")
_WAIT = re.compile(r"process \d+ still waiting for \w+ on .* after \d+\.\d+ ms")
_HINT = re.compile(r'Consider increasing the configuration parameter "\w+"\.')
_STOP = re.compile(r"received (smart|fast|immediate) shutdown request")
_KEPT_CHECKPOINTS, _KEPT_SIGNALS, _KEPT_NAMES = 20_000, 100, 1000
_COUNTED = (
    "killed_by_9", "crashes", "panics", "temp_files", "autovacuums", "autoanalyzes", "deadlocks", "lock_waits",
)  # fmt: skip
"""Kinds of messages that are evidence by their number alone."""
_QUOTES = {"checkpoint_starts": ("wal_start", "wal_complete")}
"""Quotes that belong to a kind and are not called like it."""


@dataclass(slots=True)
class LogCounts:
    """The counts so far; memory is bounded, however long the log. `kept` collects the lines that were understood."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)
    too_frequent_s: list[int] = field(default_factory=list)
    hints: dict[str, None] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    quotes: dict[str, str] = field(default_factory=dict)
    signals: list[int] = field(default_factory=list)
    """The signals that processes of the server died of, the first ones."""
    stops: list[str] = field(default_factory=list)
    """The shutdowns that somebody asked for: smart, fast or immediate."""
    largest_temp: int = 0
    temp_bytes: int = 0
    lines: int = 0
    unparsed: int = 0
    keep_at_most: int = 0
    kept: list[str] = field(default_factory=list)
    earlier: dict[str, int] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    started: str | None = None
    _cause: str | None = None
    _is_crashing: bool = False

    def take(self, line: LogLine) -> None:
        """Count one message."""
        if line.severity == "STATEMENT":
            return
        if line.severity == "HINT":
            self._hint(line, line.message)
        elif line.severity == "PANIC":
            self._saw("panics", line)
        elif line.severity == "LOG":
            self._log(line)
        elif line.severity == "ERROR" and line.message == "deadlock detected":
            self._saw("deadlocks", line)
        if line.hint:
            self._hint(line, line.hint)

    def evidence(self, files: tuple[str, ...], began: str | Unknown, ended: str | Unknown) -> LogEvidence:
        """Return the counts as evidence."""
        count = self.counts
        return LogEvidence(
            files=files,
            lines=self.lines,
            began=began,
            ended=ended,
            checkpoints=tuple(self.checkpoints),
            starts=dict(self.starts),
            too_frequent_s=tuple(self.too_frequent_s),
            hints=tuple(self.hints),
            temp_bytes=self.temp_bytes,
            largest_temp_bytes=self.largest_temp,
            connections=max(count.get("connections", 0), count.get("authorized", 0)),
            quotes=dict(self.quotes),
            unparsed=self.unparsed,
            earlier=dict(self.earlier),
            changed=dict(self.changed),
            started=self.started,
            **{kind: count.get(kind, 0) for kind in _COUNTED},
        )

    def _log(self, line: LogLine) -> None:
        message = line.message
        if message.startswith(("checkpoint", "restartpoint")):
            self._checkpoint(line)
        elif (signal := _SIGNAL.match(message)) is not None:
            self._is_crashing = True
            self._saw("crashes", line)
            self.signals += [int(signal[2])] if len(self.signals) < _KEPT_SIGNALS else []
            if signal[2] == "9":
                self._saw("killed_by_9", line)
        elif message.startswith("database system was not properly shut down"):
            if not self._is_crashing:  # the crash itself was not seen: power was lost, or the postmaster killed
                self._saw("crashes", line)
            self._is_crashing = False
        elif is_start(message):
            self.changed.clear()
            self.started = "" if isinstance(line.at, Unknown) else line.at
            self._begin_anew(RESTS_ON)
            self._keep(line)
        elif (name := changed_setting(message)) is not None:
            if name in self.changed or len(self.changed) < _KEPT_NAMES:
                self.changed[name] = "" if isinstance(line.at, Unknown) else line.at
            self._begin_anew(kind for kind, names in RESTS_ON.items() if name in names)
            self._keep(replace(line, message=without_value(name)))
        elif (stop := _STOP.match(message)) is not None:
            self.stops += [stop[1]] if len(self.stops) < _KEPT_SIGNALS else []
        elif message.startswith("temporary file: path"):
            self._temp_file(line)
        elif _VACUUM.match(message):
            self._saw("autovacuums", line)
        elif message.startswith("automatic analyze of table "):
            self._saw("autoanalyzes", line)
        elif _WAIT.match(message):
            self._saw("lock_waits", line)
        elif message.startswith("connection received:"):
            self._saw("connections", line, quote=False)
        elif message.startswith("connection authorized:"):
            self._saw("authorized", line, quote=False)

    def _begin_anew(self, kinds: Iterable[str]) -> None:
        """Put the counts of these kinds aside: the settings that they rest on are others from here on."""
        for kind in kinds:
            count = self.counts.pop(kind, 0)
            if count:
                self.earlier[kind] = self.earlier.get(kind, 0) + count
            for quote in (kind, *_QUOTES.get(kind, ())):
                self.quotes.pop(quote, None)
            if kind == "too_frequent":
                self.too_frequent_s.clear()
                self.hints = {hint: None for hint in self.hints if "max_wal_size" not in hint}
            elif kind == "checkpoint_starts":
                self.starts.clear()
            elif kind == "temp_files":
                self.temp_bytes = self.largest_temp = 0

    def _checkpoint(self, line: LogLine) -> None:
        message = line.message
        cause = started_cause(message)
        if cause is not None:
            if not line.is_whole:
                self.unparsed += 1
                return
            self._cause = cause
            self.starts[cause] = self.starts.get(cause, 0) + 1
            self._saw("checkpoint_starts", line)
            if cause == "wal":
                self.quotes["wal_start"] = sentence(line)
            return
        if message.startswith("checkpoints are occurring"):
            gap = too_frequent_gap(message)
            if gap is None:
                self.unparsed += 1
                return
            self.too_frequent_s.append(gap)
            self._saw("too_frequent", line)
            return
        done = parse_complete(message, at=line.at, cause=self._cause or NO_START, is_whole=line.is_whole)
        if done is None:
            self.unparsed += 1
            return
        self._cause = None
        self.checkpoints.append(done)
        del self.checkpoints[:-_KEPT_CHECKPOINTS]
        self._saw("checkpoints", line)
        if done.cause == "wal":
            self.quotes["wal_complete"] = sentence(line)

    def _temp_file(self, line: LogLine) -> None:
        size = _TEMP_FILE.match(line.message)
        if size is None or not line.is_whole:
            self.unparsed += 1
            return
        self.temp_bytes += int(size[1])
        self.largest_temp = max(self.largest_temp, int(size[1]))
        self._saw("temp_files", line)

    def _hint(self, line: LogLine, hint: str) -> None:
        if _HINT.fullmatch(hint):
            self.hints.setdefault(hint)
            if line.severity == "HINT":
                self._keep(line)

    def _saw(self, what: str, line: LogLine, *, quote: bool = True) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        if quote:
            self.quotes[what] = sentence(line)
            if what != "killed_by_9":
                self._keep(line)

    def _keep(self, line: LogLine) -> None:
        if self.keep_at_most:
            self.kept.append(sentence(line))
            if line.hint and _HINT.fullmatch(line.hint):
                self.kept.append(sentence(LogLine(line.at, "HINT", line.hint)))
            if len(self.kept) > 2 * self.keep_at_most:
                del self.kept[: -self.keep_at_most]


def sentence(line: LogLine) -> str:
    """Return a line for a quote: the time, the severity, the message; the rest of the prefix may name persons."""
    when = "" if isinstance(line.at, Unknown) else f"{line.at} "
    return f"{when}{line.severity}:  {line.message}"
