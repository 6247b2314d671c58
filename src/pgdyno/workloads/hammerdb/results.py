"""Read what HammerDB leaves: logs of virtual users, JSON of its jobs commands, and files that mix both. Pure.

A result is one sentence, `System achieved 12345 NOPM from 28765 PostgreSQL TPM`; up to version 3 its figures stand the
other way round, `28765 PostgreSQL TPM at 12345 NOPM`. From version 6 `jobs summaryjson` gives fields instead
(`job_report.py`). Response times are in `time_profile.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.outside.documents import check
from pgdyno.workloads.hammerdb.job_report import procedures_in, report_run, summaries
from pgdyno.workloads.hammerdb.run import HammerRun, ProcedureTime, moment

_RESULT = re.compile(
    r"System achieved (?:(?P<nopm>\d{1,15}) NOPM from (?P<tpm>\d{1,15}) (?P<database>[\w ]+?) TPM"
    r"|(?P<old_tpm>\d{1,15}) (?P<old_database>[\w ]+?) TPM at (?P<old_nopm>\d{1,15}) NOPM)"
)
_USERS = re.compile(r"\b(\d{1,9}) (?:(?:Active )?Virtual Users|VU \\?\* .*Active Sessions) configured", re.IGNORECASE)
_CREATED = re.compile(r"\b(\d{1,9}) Virtual Users Created with Monitor VU")
_START = re.compile(r"Vuser 1 created|Vuser 1:RUNNING|Beginning rampup time|Hammerdb Log @")
_RAMPUP = re.compile(r"Beginning rampup time of (\d{1,9}) minutes?", re.IGNORECASE)
_TIMED = re.compile(r"Timing test period of (\d{1,9}) in minutes", re.IGNORECASE)
_WAREHOUSES = re.compile(r"(?:\bWarehouses|_count_ware) += (\d{1,9})\b")
_VERSION = re.compile(r"HammerDB (?:CLI )?v?(\d+(?:\.\d+)+)")
_JOB = re.compile(r"\b([0-9A-F]{16,40})\b")
_NAMED_JOB = re.compile(r"jobid\s*=\s*(\w+)")
_FAILED = re.compile(r"Vuser (\d+):FINISHED FAILED|Error in Virtual User (\d+)")
_OTHER_BENCHMARK = re.compile(r"TPROC-H|query set\(s\)", re.IGNORECASE)
MOST_TRIED = 4 << 30
"""Characters that are looked at in the search for JSON among lines of a log."""
_JSON_BEGINS = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)


def parse_results(text: str, *, source: str) -> list[HammerRun]:
    """Return the runs that a file tells of, in its order. Raise UsageError, naming `source`, when there is none."""
    ((runs),) = parse_files([(source, text)])
    return runs


def parse_files(files: Sequence[tuple[str, str]]) -> list[list[HammerRun]]:
    """Return the runs of each file, given as name and text; a file that holds only time profiles gives none.

    HammerDB writes its time profile into a file of its own: the profiles of such files belong to the runs that have no
    times yet, in order, if there are as many. Raises UsageError on a file of neither, and on profiles that do not fit.
    """
    found: list[list[HammerRun]] = []
    profiles: list[Mapping[str, ProcedureTime]] = []
    for source, text in files:
        runs = _runs(text)
        found.append(runs)
        only_times = [] if runs else summaries(text)
        profiles += only_times
        if not runs and not only_times:
            raise _no_result(source, text)
    bare = sum(not run.procedures for runs in found for run in runs)
    if profiles and len(profiles) != bare:
        raise UsageError(
            f"time profiles of {len(profiles)} tests do not fit {bare} results without times",
            hint="Give the time profile together with the log of the same tests.",
        )
    left = iter(profiles)
    return [[run if run.procedures else replace(run, procedures=next(left, {})) for run in runs] for runs in found]


def _runs(text: str) -> list[HammerRun]:
    documents, rest = _split(text)
    try:
        told, times = _collect(documents)
    except RecursionError:
        told, times = [], {}
    found = told + list(_from_log(rest))
    profiles = summaries(rest) or ([times] if times else [])
    if len(profiles) == len(found):
        found = [run if run.procedures else replace(run, procedures=p) for run, p in zip(found, profiles, strict=True)]
    return found


def _no_result(source: str, text: str) -> UsageError:
    other = _OTHER_BENCHMARK.search(text)
    wanted = "A result is the line TEST RESULT : System achieved ... NOPM from ... TPM."
    return UsageError(
        f'"{source}" holds no result of HammerDB\'s TPROC-C',
        detail="It tells of TPROC-H, which has no new orders." if other else wanted,
        hint="Give the log of a timed test that ran to its end, or the JSON of HammerDB's jobs commands.",
    )


def _split(text: str) -> tuple[list[object], str]:
    """Return the JSON values that begin a line, and the text without them."""
    decoder, found, rest, at = json.JSONDecoder(), list[object](), list[str](), 0
    tries = min(10_000, MOST_TRIED // (len(text) + 1))  # each may look at the whole of the text
    while (match := _JSON_BEGINS.search(text, at)) and tries > 0:
        begin = match.end() - 1
        try:
            value, end = decoder.raw_decode(text, begin)
            check(value)
        except (ValueError, RecursionError):
            tries -= 1
            end = text.find("\n", begin) + 1 or len(text)
            rest.append(text[at:end])
        else:
            found.append(value)
            rest.append(text[at:begin])
        at = end
    return found, "".join([*rest, text[at:]])


def _from_log(text: str) -> Iterator[HammerRun]:
    """Yield a run for each test: what was said from its beginning to the beginning of the next."""
    version = _first(_VERSION, text)
    said: list[str] = []
    result: re.Match[str] | None = None
    for line in text.splitlines():
        match = _RESULT.search(line)
        if result is not None and (match or _START.search(line) or _USERS.search(line)):
            yield _run(result, "\n".join(said), version)
            said, result = [], None
        said.append(line)
        result = match or result
    if result is not None:
        yield _run(result, "\n".join(said), version)


def _run(result: re.Match[str], said: str, version: str | None) -> HammerRun:
    created = _whole(_last(_CREATED, said))
    return HammerRun(
        nopm=int(result["nopm"] or result["old_nopm"]),
        tpm=int(result["tpm"] or result["old_tpm"]),
        database=result["database"] or result["old_database"],
        users=_whole(_last(_USERS, said)) or (None if created is None else created - 1),
        rampup_min=_whole(_last(_RAMPUP, said)),
        duration_min=_whole(_last(_TIMED, said)),
        warehouses=_whole(_last(_WAREHOUSES, said)),
        version=version,
        job=_last(_NAMED_JOB, said),
        began_at=moment(said),
        failed_users=len({one or other for one, other in _FAILED.findall(said)}),
    )


def _collect(node: object) -> tuple[list[HammerRun], dict[str, ProcedureTime]]:
    """Return the runs below a JSON value, and the times that belong to none of them yet.

    Times, and the name of the job, belong to a run where both first stand under one roof with no second run.
    """
    if (report := report_run(node)) is not None:
        return [report], {}
    strings, children = _parts(node)
    runs = list(_from_log("\n".join(strings)))
    times = procedures_in(node)
    for child in children:
        below, of_none = _collect(child)
        runs += below
        times |= of_none
    if len(runs) == 1:
        (run,) = runs
        names = [string for string in strings if _JOB.fullmatch(string)]
        job = run.job or (names[0] if names else None)
        return [replace(run, job=job, procedures=run.procedures or times)], {} if not run.procedures else times
    return runs, times


def _parts(node: object) -> tuple[list[str], list[object]]:
    """Return the strings of a list or an object, keys included, and what else it holds."""
    if isinstance(node, dict):
        values = list(node.values())
        return [*map(str, node), *(value for value in values if isinstance(value, str))], values
    if isinstance(node, list):
        return [value for value in node if isinstance(value, str)], node
    return [], []


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return str(found[-1]) if found else None


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)
