"""The summary of a job that HammerDB writes from version 6 (`jobs summaryjson`): fields instead of a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgdyno.workloads.hammerdb.run import HammerRun, moment
from pgdyno.workloads.hammerdb.time_profile import procedure_time

_MACHINE = (("cpumodel", "{}"), ("cpucount", "{} CPUs"), ("memory", "{}"), ("os_name", "{}"), ("hostname", "host {}"))


def report_run(node: object) -> HammerRun | None:
    """Return the run of a summary, None for a value that is no summary of a TPROC-C job."""
    if not isinstance(node, dict):
        return None
    job, result, load = (_object(node, name) for name in ("job", "result", "benchmark_config"))
    nopm, tpm = _whole(result, "nopm"), _whole(result, "tpm")
    if not job or nopm is None or tpm is None:
        return None
    rows = _object(node, "response_times").get("rows")
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
        machine=_machine(job, _object(node, "system")),
        procedures={str(row.get("name")): procedure_time(row) for row in timed},
    )


def _machine(job: Mapping[str, object], system: Mapping[str, object]) -> str | None:
    """Return server and host in one line, None where the summary does not tell of a host."""
    told = [form.format(value) for name, form in _MACHINE if (value := _text(system, name))]
    if not told:
        return None
    server = " ".join(filter(None, (_text(job, "database_display"), _text(job, "release"))))
    return f"{server} on {', '.join(told)}" if server else ", ".join(told)


def _object(node: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = node.get(name)
    return value if isinstance(value, dict) else {}


def _text(node: Mapping[str, object], name: str) -> str | None:
    value = node.get(name)
    return str(value) if isinstance(value, str | int | float) and str(value).strip() else None


def _whole(node: Mapping[str, object], name: str) -> int | None:
    value = node.get(name)
    text = str(value)[:20]
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None
