"""The two platforms of source 002 as the comparison takes them, from the rows that it prints."""

from __future__ import annotations

from typing import Any

from pgdyno.model.platform import Platform, PlatformRow
from seed_tables import seed_fact, seed_row, seed_rows

TUNED, DEFAULT = "tuned", "default"
_NAMES = {"Tune": TUNED, "Default": DEFAULT, "No Tune": DEFAULT}
_SAME = {
    "workload": "tpcb-like",
    "data set": "scale 1000",
    "driver": "pgbench 14.4",
    "period": "as printed",
    "configuration": "by row",
}


def _row(values: dict[str, Any]) -> PlatformRow:
    return PlatformRow(
        configuration=_NAMES[values["test"]],
        mode="tpcb-like",
        instances=values["pods"],
        clients=values["clients_per_pod"],
        tps=values["tps"],
        latency_ms=values["lat_ms"],
        cpu_pct=values["cpu_pct"],
        throughputs=(values["tps"],),
    )


def _platform(name: str, system: str, table: str, changed: dict[int, float] | None, **same: str) -> Platform:
    facts, rows = seed_row("systems_002", system=system), seed_rows(table)
    for pods, tps in (changed or {}).items():
        next(row for row in rows if row["pods"] == pods and _NAMES[row["test"]] == TUNED)["tps"] = tps
    cores, smt = facts["db_vm_cores"], facts["threads_per_core"]
    return Platform(
        name=name,
        rows=tuple(_row(row) for row in rows),
        cores=cores,
        threads=cores * smt,
        vcpus=cores * smt,
        study=f"{name}-study",
        same=_SAME | same,
        unlike={
            "processor": facts["model"],
            "threads per core": str(smt),
            "page size": f"{facts['os_page_kb']} KiB",
            "file system block": f"{facts['fs_block_kb']} KiB",
            "kernel": facts["kernel"],
            "operating system": seed_fact("systems_002", "common")["os"],
        },
    )


def power(changed: dict[int, float] | None = None, **same: str) -> Platform:
    """Return Power10 with 8 cores at SMT8; `changed` replaces the tuned throughput at a number of pods."""
    return _platform("power", "Power", "power_smt8", changed, **same)


def x86(changed: dict[int, float] | None = None, **same: str) -> Platform:
    """Return the Xeon with 16 cores and hyperthreading."""
    return _platform("x86", "x86", "x86_ht", changed, **same)
