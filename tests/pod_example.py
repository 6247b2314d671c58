"""What a pod of `drive.sh` prints, made up: transactions whose truth is known."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json

from pgdyno.model.matrix import Cell

EPOCH = 1_800_000_000
CELL = Cell(2, 2, 1, "tpcb-like", 1, "default", placement="db1")


def pod_text(
    index: int,
    *,
    cell: Cell = CELL,
    number: int = 1,
    repetition: int = 1,
    settings: dict[str, str] | None = None,
    seconds: int = 10,
    per_second: int = 100,
    latency_us: int = 20_000,
    late_s: float = 0.0,
    code: int = 0,
    said: str = "",
) -> str:
    """Return the whole output of one pod: `per_second` transactions of its clients, evenly spread."""
    told = {
        "cell": cell.factors(), "settings": settings or {}, "repetition": repetition, "repetitions": 1, "seed": 1,
        "number": number, "warmup_s": 2.0, "measure_s": 6.0, "protocol": "prepared", "pgbench": 18, "vcpus": 2.0,
        "memory_bytes": None, "network": {"injection": "VLAN 20"},
    }  # fmt: skip
    lines = []
    for place in range(seconds * per_second):
        end = EPOCH * 1_000_000 + round(1e6 * late_s) + latency_us + place * 1_000_000 // per_second
        lines.append(f"{place % cell.clients} {place} {latency_us} 0 {end // 1_000_000} {end % 1_000_000}")
    samples = [f"{EPOCH + second}.5 sessions - {cell.connections} 0" for second in range(seconds)]
    samples += [f"{EPOCH + second}.5 RowExclusiveLock relation {6 + second % 2} 0" for second in range(seconds)]
    parts = [f"pgdyno-pod 1 {index} {json.dumps(told)}"]
    parts += ["pgdyno-server 23456789 18.6"] if index == 0 else []
    parts += [f"pgdyno-begin {EPOCH}", said, f"pgdyno-end {code} 0m0.250s 0m0.750s"]
    parts += [packed("samples", samples)] if index == 0 else []
    return "\n".join([*parts, packed("transactions", lines), "pgdyno-complete", ""])


def packed(name: str, lines: list[str]) -> str:
    """Return a file as a pod prints it."""
    data = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    text = base64.encodebytes(data).decode()
    return f"pgdyno-file {name} {hashlib.sha256(data).hexdigest()}\n{text}pgdyno-close {name}"
