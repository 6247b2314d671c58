"""One line of a server's log: when, which severity, which message; stderr with any prefix, csvlog and jsonlog. Pure."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from pgdyno.model.facts import Unknown
from pgdyno.outside.documents import load_json

NO_TIME = Unknown("log_line_prefix writes no time")


class LogFormat(StrEnum):
    """How a log is written (log_destination)."""

    STDERR = "stderr"
    CSV = "csvlog"
    JSON = "jsonlog"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One message. `hint` is what csvlog and jsonlog carry with it; stderr writes it as a line of its own."""

    at: str | Unknown
    severity: str
    message: str
    hint: str = ""
    is_whole: bool = True


SEVERITIES = frozenset(
    {"DEBUG", "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5", "LOG", "INFO", "NOTICE", "WARNING", "ERROR", "FATAL"}
    | {"PANIC"}
)
_PARTS = frozenset({"HINT", "DETAIL", "CONTEXT", "STATEMENT", "QUERY", "LOCATION"})
_SEVERITY = re.compile(rf"(?:^|(?<=[^A-Za-z0-9_]))({'|'.join(sorted(SEVERITIES | _PARTS))}):  ")
_TIME = re.compile(
    r"(?<!\d)\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?"
    r"(?: ?(?:Z|[A-Z][A-Za-z]{1,5}|[+-]\d\d(?::?\d\d)?)(?![\w/]))?"
)
_EPOCH = re.compile(r"(?<![\d.])(\d{10}\.\d{3})(?![\d.])")
_CSV_START = re.compile(rb'^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [^,"]{1,12},')
_CSV_COLUMNS = 22
"""13 writes 24 columns, 9.x to 12 wrote 23; the first 22 are the same."""
_JSON_TIME = "timestamp"


def parse_stderr(raw: bytes, *, is_whole: bool = True) -> LogLine | None:
    """Parse a line of stderr; None for the continuation of another (a tab first) and for what has no severity.

    The first severity of the line counts, so that one inside of a statement's text does not.
    """
    if raw.startswith((b"\t", b" \t")):
        return None
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    match = _SEVERITY.search(text)
    if match is None:
        return None
    return LogLine(time_in(text[: match.start()]), match[1], text[match.end() :], is_whole=is_whole)


def parse_csv(raw: bytes) -> LogLine | None:
    """Parse a whole record of csvlog; None when it is not one."""
    try:
        fields = next(csv.reader([raw.decode("utf-8", "replace").replace("\0", "")], strict=True), [])
    except csv.Error:
        return None
    if len(fields) < _CSV_COLUMNS:
        return None
    return LogLine(fields[0] or NO_TIME, fields[11], fields[13], fields[15])


def parse_json(raw: bytes) -> LogLine | None:
    """Parse a line of jsonlog; None when it is not one."""
    try:
        record = load_json(raw, finite=False)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    texts = {name: str(record[name]) for name in (_JSON_TIME, "error_severity", "message", "hint") if name in record}
    if "error_severity" not in texts:
        return None
    at = texts.get(_JSON_TIME) or NO_TIME
    return LogLine(at, texts["error_severity"], texts.get("message", ""), texts.get("hint", ""))


def time_in(text: str) -> str | Unknown:
    """Return the time that a prefix holds: %t, %m as they are, %n (seconds since the epoch) as ISO 8601 in UTC."""
    match = _TIME.search(text)
    if match is not None:
        return match[0].strip()
    epoch = _EPOCH.search(text)
    if epoch is None:
        return NO_TIME
    return datetime.fromtimestamp(float(epoch[1]), UTC).isoformat(timespec="milliseconds")


def seconds_of(at: str | Unknown) -> float | None:
    """Return a log's time in seconds for differences within one log, whose zone is the same; None when unreadable."""
    if isinstance(at, Unknown):
        return None
    match = re.match(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?", at)
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00").timestamp()
    except ValueError:
        return None
    return whole + float(f"0.{match[3] or 0}")


def format_of(head: bytes) -> LogFormat:
    """Return the format that the beginning of a file shows; what is neither CSV nor JSON is read as stderr."""
    for line in head.splitlines()[:50]:
        if line.startswith(b'{"'):
            return LogFormat.JSON
        if starts_csv(line) and line.count(b",") >= _CSV_COLUMNS - 1:
            return LogFormat.CSV
        if parse_stderr(line) is not None:
            return LogFormat.STDERR
    return LogFormat.STDERR


def starts_csv(line: bytes) -> bool:
    """Tell whether a line looks like the beginning of a record of csvlog."""
    return _CSV_START.match(line) is not None
