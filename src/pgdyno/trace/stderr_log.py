"""Read a log to stderr by its declared log_line_prefix, and write it as csvlog, from which on it is treated the same.

A line that the prefix does not begin belongs to the line before it where a tab begins it: so the server writes lines of
statements. What is neither is no line of the server, and is counted. An application_name may hold anything printable,
also what looks like the end of a prefix: csvlog is exact where stderr has to be believed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.trace.lines import SEVERITIES
from pgdyno.trace.logs import LONGEST, SEGMENT, Log, Segment, longest_line, reading, recoded, write_segment

_FIELDS = {
    "a": ("app", r".*?"), "u": ("usr", r".*?"), "d": ("db", r".*?"), "r": ("", r".*?"), "h": ("", r"\S*?"),
    "b": ("backend", r"[a-z ]*?"), "p": ("pid", r"\d+"), "P": ("", r"\d*"), "L": ("", r".*?"),
    "t": ("", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+"), "m": ("time", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+"),
    "n": ("epoch", r"\d+\.\d{3}"), "i": ("tag", r".*?"), "e": ("state", r"[0-9A-Z]{5}"),
    "c": ("sid", r"[0-9a-f]+\.[0-9a-f]+"),
    "l": ("line", r"\d+"), "s": ("", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+"), "v": ("vxid", r"(?:\d+/\d+)?"),
    "x": ("xid", r"\d+"), "Q": ("", r"-?\d+"),
}  # fmt: skip
"""What each escape of log_line_prefix writes."""
_ADDED = ("DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION", "BACKTRACE", "STATEMENT")
_VERBOSE = re.compile(r"([0-9A-Z]{5}): ")
"""What stands before each message where log_error_verbosity is verbose: the SQLSTATE, of a LOG line 00000."""
_PERSON = ("usr", "db")
_AUTHORIZED = re.compile(
    r"connection authorized: user=(.*?) database=(.*?)(?: application_name=.*| SSL enabled \(.*| GSS \(.*)?", re.DOTALL
)
_UNKNOWN = "?????"
"""The SQLSTATE of an error where the prefix has no %e."""
_HINT = "Write it as the server's log_line_prefix is, with %m (or %n) and %c (or %p); %u, %d, %a, %v, %x, %e, %l help."


@lru_cache(maxsize=256)
def prefix_pattern(prefix: str, person: tuple[str, str] | None = None) -> re.Pattern[str]:
    """Return the pattern of a line that a prefix begins, of a user and a database where these are known.

    Raises UsageError where the prefix does not tell enough.
    """
    found, seen, optional = list[str](), set[str](), False
    known = {} if person is None else dict(zip(_PERSON, map(re.escape, person), strict=True))
    for text, escape in re.findall(r"([^%]+)|%-?\d*(.|$)", prefix):
        if text:
            found.append(re.escape(text))
        elif escape == "%":
            found.append("%")
        elif escape == "q":
            found.append("(?:")
            optional = True
        elif escape in _FIELDS:
            name, pattern = _FIELDS[escape]
            pattern = known.get(name, pattern)
            padded = rf" *{pattern} *"
            found.append(padded if not name or name in seen else rf" *(?P<{name}>{pattern}) *")
            seen.add(name)
        else:
            raise UsageError(f'prefix "{prefix}": "%{escape}" is no escape of log_line_prefix', hint=_HINT)
    if not seen & {"time", "epoch"}:
        raise UsageError(f'prefix "{prefix}" has no time in milliseconds', hint=_HINT)
    if not seen & {"sid", "pid"}:
        raise UsageError(f'prefix "{prefix}" does not tell sessions apart', hint=_HINT)
    severities = "|".join((*SEVERITIES, *_ADDED))
    return re.compile("".join(found) + (")?" if optional else "") + rf"(?P<sev>{severities}):  (?P<msg>.*)", re.DOTALL)


@dataclass(slots=True)
class _Seen:
    """A process, or a session, between its lines."""

    sid: str
    lines: int = 0
    extra: int = 0
    """Lines that were part of a record before them."""
    person: tuple[str, str] | None = None
    """User and database, as its connection tells them."""


@dataclass(slots=True)
class StderrReader:
    """Reads logs to stderr one after another."""

    prefix: str
    encodings: Mapping[str, str]
    unreadable: int = 0
    pattern: re.Pattern[str] = field(init=False)
    seen: dict[str, _Seen] = field(default_factory=dict)
    is_verbose: bool = False
    """By the last line that is no error."""

    def __post_init__(self) -> None:
        self.pattern = prefix_pattern(self.prefix)

    def segments(self, log: Log, folder: Path, *, size: int = SEGMENT) -> Iterator[Segment]:
        """Give the segments of a log as csvlog; each is gone when the next is asked for."""
        buffer, count = io.StringIO(newline=""), 0
        write = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow
        for record in self._records(log):
            write(record)
            count += 1
            if buffer.tell() >= size:
                yield _segment(buffer, folder, count)
                count = 0
        if count:
            yield _segment(buffer, folder, count)

    def _records(self, log: Log) -> Iterator[list[str]]:
        record = list[str]()
        key = ""
        for line in self._lines(log):
            found = self.pattern.match(line)
            if found is None:
                self.unreadable += 1
                continue
            told = found.groupdict()
            self._take_state(told)
            seen, name = self._session(told)
            told = self._as_known(line, told, seen)
            if told["sev"] in _ADDED:
                seen.extra += 1
                if name == key:
                    _add(record, told["sev"], told["msg"])
                continue
            if record:
                yield record
            key, record = name, _record(told, seen)
            if (told["msg"] or "").startswith("disconnection: "):
                self.seen.pop(name, None)
        if record:
            yield record

    def _as_known(self, line: str, told: dict[str, str | None], seen: _Seen) -> dict[str, str | None]:
        """Return what a line tells of a session whose names are known: they may hold what stands behind an escape."""
        if told["sev"] == "LOG" and (found := _AUTHORIZED.fullmatch(told["msg"] or "")):
            seen.person = found[1], found[2]
        person = seen.person
        if person is None or all(told.get(key) in (None, one) for key, one in zip(_PERSON, person, strict=True)):
            return told
        again = prefix_pattern(self.prefix, person).match(line)
        if again is None:
            return told
        told = again.groupdict()
        self._take_state(told)
        return told

    def _take_state(self, told: dict[str, str | None]) -> None:
        """Take the SQLSTATE off a message that a verbose log has before it."""
        if told["sev"] in _ADDED:
            return
        found = _VERBOSE.match(told["msg"] or "")
        if told["sev"] == "LOG" and (found is None or found[1] == "00000"):
            self.is_verbose = found is not None
        if self.is_verbose and found is not None:
            told["state"], told["msg"] = told.get("state") or found[1], found.string[found.end() :]

    def first_time(self, log: Log) -> str:
        """Return the time of the first line that the prefix begins. Raises UsageError where there is none."""
        with reading(log.path) as file:
            for raw in islice(iter(lambda: file.readline(1 << 20), b""), 1000):
                if found := self.pattern.match(raw.decode("latin-1")):
                    return _time(found.groupdict())
        raise UsageError(
            f'log "{log.path}": no line begins with the prefix "{self.prefix}"',
            hint="Give --prefix as the server's log_line_prefix is, or name a csvlog or a jsonlog.",
        )

    def _session(self, told: dict[str, str | None]) -> tuple[_Seen, str]:
        name = told.get("sid") or f"pid {told.get('pid')}"
        seen = self.seen.get(name)
        begins = (told["msg"] or "").startswith("connection received: ")
        if seen is None or (begins and "sid" not in told):
            sid = told.get("sid") or f"{int(_seconds(told)):x}.{int(told.get('pid') or 0):x}"
            seen = self.seen[name] = _Seen(sid)
        seen.lines += 1
        return seen, name

    def _lines(self, log: Log) -> Iterator[str]:
        """Give lines of the server, with the lines that tabs join to them."""
        number, joined, first = 0, list[bytes](), 1
        with reading(log.path) as file:
            while raw := file.readline(LONGEST):
                number += 1
                if len(raw) >= LONGEST or sum(map(len, joined)) > LONGEST:
                    raise UsageError(f'log "{log.path}" line {number}: a record of more than {LONGEST >> 20} MB')
                if b"\0" in raw:
                    raise UsageError(f'log "{log.path}" line {number}: a NUL byte', hint="The log is damaged.")
                if raw.startswith(b"\t") and joined:
                    joined.append(raw[1:])
                    continue
                if joined:
                    yield self._text(b"".join(joined), log.path, first)
                joined, first = [raw], number
        if joined:
            yield self._text(b"".join(joined), log.path, first)

    def _text(self, raw: bytes, path: Path, line: int) -> str:
        raw = raw.removesuffix(b"\n")
        if raw.isascii():
            return raw.decode("ascii")
        found = self.pattern.match(raw.decode("latin-1"))
        database = (found.groupdict().get("db") or "") if found else ""
        return recoded(raw, database, self.encodings, f'log "{path}" line {line}').decode()


def in_order(logs: list[Log], stderr: StderrReader | None) -> list[Log]:
    """Return the logs in the order of time; those to stderr need a reader of their prefix.

    Raises UsageError where they are of several formats, empty, or of no form that is known.
    """
    logs = [log for log in logs if log.format != "empty"]
    formats = sorted({log.format for log in logs})
    if len(formats) > 1:
        raise UsageError(
            f"the logs are of several formats: {', '.join(formats)}",
            hint="A server may write the same lines in each: name the files of one.",
        )
    if not logs:
        raise UsageError("the logs are empty", hint="Name the files that the server wrote.")
    if formats == ["stderr"]:
        if stderr is None:
            raise UsageError(
                f'log "{logs[0].path}" is neither csvlog nor jsonlog',
                detail="It does not begin with a record of either.",
                hint="Of a log to stderr, give the server's log_line_prefix: --prefix '%m [%p] %q%u@%d '.",
            )
        logs = [replace(log, first=stderr.first_time(log)) for log in logs]
    return sorted(logs, key=lambda log: log.first)


def _record(told: dict[str, str | None], seen: _Seen) -> list[str]:
    """Return a line as a record of csvlog."""
    line = int(told["line"] or 0) - seen.extra if told.get("line") else seen.lines - seen.extra
    state = told.get("state") or ("00000" if told["sev"] == "LOG" else _UNKNOWN)
    user, database = _known(told.get("usr")), _known(told.get("db"))
    message = told["msg"] or ""
    return [
        _time(told), user, database, told.get("pid") or "", "", seen.sid, str(line), told.get("tag") or "", "",
        told.get("vxid") or "", told.get("xid") or "", told["sev"] or "", state, message,
        "", "", "", "", "", "", "", "", _known(told.get("app")), told.get("backend") or "", "", "",
    ]  # fmt: skip


_PLACES = {"DETAIL": 14, "CONTEXT": 18, "STATEMENT": 19}


def _add(record: list[str], severity: str, text: str | None) -> None:
    if severity in _PLACES:
        record[_PLACES[severity]] = text or ""


def _known(text: str | None) -> str:
    return "" if text in (None, "[unknown]") else text


def _time(told: dict[str, str | None]) -> str:
    return told.get("time") or f"{datetime.fromtimestamp(_seconds(told), UTC):%Y-%m-%d %H:%M:%S.%f}"[:23] + " UTC"


def _seconds(told: dict[str, str | None]) -> float:
    if told.get("epoch"):
        return float(told["epoch"] or 0)
    return datetime.strptime((told.get("time") or "")[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def _segment(buffer: io.StringIO, folder: Path, count: int) -> Segment:
    data = buffer.getvalue().encode()
    buffer.seek(0)
    buffer.truncate()
    return Segment(write_segment(folder, data), "csvlog", 26, longest_line(data, len(data)), count)
