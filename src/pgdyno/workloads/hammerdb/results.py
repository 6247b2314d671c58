"""Read what HammerDB leaves: a log of virtual users, or the JSON of its jobs command and web service. Pure.

A result is one line, `TEST RESULT : System achieved 12345 NOPM from 28765 PostgreSQL TPM`, with the number of users
a line before it. JSON holds the same sentences as strings, and times of each procedure where the time profile was on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pgdyno.errors import UsageError

_RESULT = re.compile(
    r"TEST RESULT\s*:\s*System achieved (?P<nopm>\d+) NOPM from (?P<tpm>\d+) (?P<database>[\w ]+?) TPM"
)
_USERS = re.compile(r"(\d+) (?:Active )?Virtual Users configured", re.IGNORECASE)
_RAMPUP = re.compile(r"Beginning rampup time of (\d+) minutes?", re.IGNORECASE)
_TIMED = re.compile(r"Timing test period of (\d+) in minutes", re.IGNORECASE)
_VERSION = re.compile(r"HammerDB (?:CLI )?v?(\d+(?:\.\d+)+)")
_JOB = re.compile(r"(?:jobid\s*=\s*|^|[^0-9A-F])([0-9A-F]{16,40})(?:$|[^0-9A-F])")
_FAILED = re.compile(r"FINISHED FAILED|Error in Virtual User (\d+)")
_MOMENTS = (
    (re.compile(r"\b(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})\b"), "%Y-%m-%d %H:%M:%S"),
    (re.compile(r"@ (\w{3} \w{3} +\d{1,2} \d{2}:\d{2}:\d{2}) \w+ (\d{4})"), "%a %b %d %H:%M:%S %Y"),
)


@dataclass(frozen=True, slots=True)
class ProcedureTime:
    """The times of one procedure: how often it was called, and milliseconds; None where the file does not say."""

    calls: int
    avg_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None


@dataclass(frozen=True, slots=True)
class HammerRun:
    """One timed test. `users` are its virtual users without the monitor; None is what the file does not say.

    `began_at` is the moment that the file tells, read as this machine's own time, because it has no zone.
    """

    nopm: int
    tpm: int
    database: str
    users: int | None = None
    rampup_min: int | None = None
    duration_min: int | None = None
    version: str | None = None
    job: str | None = None
    began_at: float | None = None
    failed_users: int = 0
    procedures: Mapping[str, ProcedureTime] = field(default_factory=dict)


def parse_results(text: str, *, source: str) -> list[HammerRun]:
    """Return the runs that a log or a JSON file tells of, in its order.

    Raises UsageError, naming `source`, when there is none: a run that was cut short has no result.
    """
    runs = list(_from_json(text)) if text.lstrip()[:1] in ("{", "[") else []
    runs = runs or list(_from_log(text))
    if not runs:
        raise UsageError(
            f'"{source}" holds no result of HammerDB',
            detail="A result is the line TEST RESULT : System achieved ... NOPM from ... TPM.",
            hint="Give the log of a timed test that ran to its end, or the JSON of HammerDB's jobs command.",
        )
    return runs


def _from_log(text: str) -> Iterator[HammerRun]:
    """Yield a run at each result line, with what was said since the one before."""
    version = _first(_VERSION, text)
    said: list[str] = []
    pending: HammerRun | None = None
    for line in text.splitlines():
        match = _RESULT.search(line)
        if match is None:
            if pending is not None and (job := re.search(r"jobid\s*=\s*(\w+)", line)):
                pending = replace(pending, job=job[1])
            said.append(line)
            continue
        if pending is not None:
            yield pending
        before = "\n".join([*said, line])
        pending = HammerRun(
            nopm=int(match["nopm"]),
            tpm=int(match["tpm"]),
            database=match["database"],
            users=_whole(_last(_USERS, before)),
            rampup_min=_whole(_last(_RAMPUP, before)),
            duration_min=_whole(_last(_TIMED, before)),
            version=version,
            began_at=_moment(before),
            failed_users=len(_FAILED.findall(before)),
        )
        said = []
    if pending is not None:
        yield replace(pending, failed_users=pending.failed_users + len(_FAILED.findall("\n".join(said))))


def _from_json(text: str) -> Iterator[HammerRun]:
    """Yield a run for each list or object that holds a result sentence; nothing where the text is not JSON."""
    try:
        document = json.loads(text)
    except ValueError:
        return
    procedures = dict(_procedures(document))
    found = [run for strings in _groups(document) for run in _from_log("\n".join(strings))]
    jobs = [(_JOB.search("\n".join(strings)), strings) for strings in _groups(document)]
    named = [match[1] for match, strings in jobs if match is not None and any(_RESULT.search(s) for s in strings)]
    for number, run in enumerate(found):
        job = run.job or (named[number] if number < len(named) else None)
        # Times are of the whole file: they belong to a run only where it holds no other.
        yield replace(run, job=job, procedures=procedures if len(found) == 1 else {})


def _groups(node: object) -> Iterator[list[str]]:
    """Yield the strings of each list or object that holds some, keys included, from the outside in."""
    if isinstance(node, dict):
        strings = [str(key) for key in node] + [value for value in node.values() if isinstance(value, str)]
        children = list(node.values())
    elif isinstance(node, list):
        strings, children = [value for value in node if isinstance(value, str)], list(node)
    else:
        return
    if any(_RESULT.search(string) for string in strings):
        yield strings
    for child in children:
        yield from _groups(child)


def _procedures(node: object) -> Iterator[tuple[str, ProcedureTime]]:
    if isinstance(node, dict):
        for name, value in node.items():
            if isinstance(value, dict) and "calls" in value and "avg_ms" in value:
                ms = {key: _real(value.get(f"{key}_ms")) for key in ("avg", "p50", "p95", "p99", "max")}
                calls = int(_real(value["calls"]) or 0)
                yield str(name), ProcedureTime(calls, ms["avg"], ms["p50"], ms["p95"], ms["p99"], ms["max"])
            else:
                yield from _procedures(value)
    elif isinstance(node, list):
        for value in node:
            yield from _procedures(value)


def _moment(text: str) -> float | None:
    for pattern, form in _MOMENTS:
        if match := pattern.search(text):
            try:
                return datetime.strptime(" ".join(match.groups()), form).timestamp()
            except (ValueError, OverflowError):
                continue
    return None


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return str(found[-1]) if found else None


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


def _real(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
