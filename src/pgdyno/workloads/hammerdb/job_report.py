"""The summary of a job that HammerDB writes from version 6 (`jobs summaryjson`): fields instead of a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgdyno.model.shapes import inner
from pgdyno.workloads.hammerdb.run import HammerRun, ProcedureTime, moment

_MACHINE = (("cpumodel", "{}"), ("cpucount", "{} CPUs"), ("memory", "{}"), ("os_name", "{}"), ("hostname", "host {}"))


def report_run(node: object) -> HammerRun | None:
    """Return the run of a summary, None for a value that is no summary of a TPROC-C job."""
    if not isinstance(node, dict):
        return None
    job, result, load = (inner(node, name) for name in ("job", "result", "benchmark_config"))
    nopm, tpm = _whole(result, "nopm"), _whole(result, "tpm")
    if not job or nopm is None or tpm is None:
        return None
    rows = inner(node, "response_times").get("rows")
    timed = [row for row in rows if isinstance(row, dict) and "calls" in row] if isinstance(rows, list) else []
    return HammerRun(
        nopm=nopm,
        tpm=tpm,
        database=_text(job, "database_display") or _text(job, "database") or "unknown database",
        users=_whole(result, "active_virtual_users") or _whole(load, "virtual_users"),
        rampup_min=_whole(load, "rampup_minutes"),
        duration_min=_whole(load, "duration_minutes"),
        warehouses=_whole(load, "warehouses"),
        version=(_text(job, "hdb_version") or "").removeprefix("v") or None,
        job=_text(job, "jobid"),
        began_at=moment(_text(job, "timestamp") or ""),
        machine=_machine(job, inner(node, "system")),
        procedures={str(row.get("name")): procedure_time(row) for row in timed},
    )


def _machine(job: Mapping[str, object], system: Mapping[str, object]) -> str | None:
    """Return server and host in one line, None where the summary does not tell of a host."""
    told = [form.format(value) for name, form in _MACHINE if (value := _text(system, name))]
    if not told:
        return None
    server = " ".join(filter(None, (_text(job, "database_display"), _text(job, "release"))))
    return f"{server} on {', '.join(told)}" if server else ", ".join(told)


def _text(node: Mapping[str, object], name: str) -> str | None:
    value = node.get(name)
    return str(value) if isinstance(value, str | int | float) and str(value).strip() else None


def _whole(node: Mapping[str, object], name: str) -> int | None:
    value = node.get(name)
    text = str(value)[:20]
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


_SUMMARY = re.compile(r">>>>> (?:SUMMARY OF \d+ ACTIVE VIRTUAL USERS|COMBINED METRICS)[^\n]*\n")
_ENDS = re.compile(r"^(?:[+-]{8,}|>>>>> (?!PROC:).*|Hammerdb .*)$", re.MULTILINE)
_PROCEDURE = re.compile(r">>>>> PROC: *(\w+)\s*\n((?:[^>\n][^\n]*(?:\n|$)){1,3})")
_BEYOND = 1e15
_FIGURE = re.compile(r"([A-Z]+\d*): *([0-9.]+)(?:ms|%)?")


def procedure_time(values: Mapping[str, object]) -> ProcedureTime:
    """Return the times of an object of HammerDB's JSON: numbers, or numbers as strings."""
    ms = {key: _real(values.get(f"{key}_ms")) for key in ("avg", "p50", "p95", "p99", "max")}
    return ProcedureTime(int(_real(values.get("calls")) or 0), ms["avg"], ms["p50"], ms["p95"], ms["p99"], ms["max"])


def procedures_in(node: object) -> dict[str, ProcedureTime]:
    """Return the times by procedure that a JSON object holds directly."""
    if not isinstance(node, dict):
        return {}
    objects = {str(name): value for name, value in node.items() if isinstance(value, dict)}
    return {name: procedure_time(value) for name, value in objects.items() if "calls" in value and "avg_ms" in value}


def summaries(text: str) -> list[dict[str, ProcedureTime]]:
    """Return the times over all virtual users of each test that a text tells of, in its order."""
    found: list[dict[str, ProcedureTime]] = []
    text = text.replace("\r\n", "\n")
    for match in _SUMMARY.finditer(text):
        end = _ENDS.search(text, match.end())
        block = text[match.end() : end.start() if end else len(text)]
        times: dict[str, ProcedureTime] = {}
        for procedure in _PROCEDURE.finditer(block):
            figures = {name.lower(): number for name, number in _FIGURE.findall(procedure[2])}
            times[procedure[1]] = procedure_time({f"{name}_ms": value for name, value in figures.items()} | figures)
        if times:
            found.append(times)
    return found


def _real(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if abs(found) < _BEYOND else None
