"""The response times that HammerDB measures where its time profile is on: as text (xtprof), or as JSON. Pure.

Text holds a block for each virtual user and one for all of them together; only the last of these is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgdyno.workloads.hammerdb.run import ProcedureTime

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
