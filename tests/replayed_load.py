"""A small captured load and replays of it as files: what a comparison is tested on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pgdyno.trace.fingerprints import fingerprint
from pgdyno.trace.parquet import write_rows
from pgdyno.trace.schema import OUTCOME, TRACE, TraceColumn

SESSIONS, ROUNDS = 50, 6
READ, WRITE, LONG = (
    "SELECT a FROM t WHERE b = 'secret'",
    "UPDATE t SET a = $1 WHERE b = $2",
    "SELECT count(*) FROM t",
)


@dataclass
class Statement:
    """One of the trace: times in microseconds."""

    sql: str
    due: int
    took: int
    tx: int
    params: list[str] | None = None
    sqlstate: str | None = None
    refused: str | None = None


@dataclass
class Load:
    """Statements by session."""

    sessions: dict[int, list[Statement]] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        """Write it as a trace."""
        names = [one.name for one in TRACE]
        rows = []
        for session, statements in self.sessions.items():
            for seq, one in enumerate(statements, start=1):
                known = {
                    "session": session, "seq": seq, "kind": "simple", "due_us": one.due, "end_us": one.due + one.took,
                    "execute_us": one.took, "sql": one.sql, "params": one.params, "tx": one.tx,
                    "fingerprint": fingerprint(one.sql), "sqlstate": one.sqlstate, "user": "u", "database": "d",
                    "implied": False, "refused": one.refused,
                }  # fmt: skip
                rows.append([known.get(name) for name in names])
        rows.sort(key=lambda row: (row[names.index("due_us")], row[0], row[1]))
        _write(path, TRACE, rows)
        return path

    def replay(self, folder: Path, took, *, answers=None, injector=0, rows=None, skip=()) -> Path:
        """Write an outcome: `took(statement)` in microseconds; `answers` by (session, seq) are SQLSTATEs."""
        names = [one.name for one in OUTCOME]
        found, answers = [], answers or {}
        for session, statements in self.sessions.items():
            for seq, one in enumerate(statements, start=1):
                if one.refused or (session, seq) in skip:
                    continue
                state = answers.get((session, seq), one.sqlstate)
                sent = one.due + injector
                known = {
                    "session": session, "seq": seq, "due_us": one.due, "sent_us": sent,
                    "done_us": sent + int(took(one)),
                    "lag_us": injector, "injector_us": injector, "gate_us": 0, "server_us": 0,
                    "rows": (rows or {}).get((session, seq), 1), "sqlstate": state or None,
                }  # fmt: skip
                found.append([known.get(name) for name in names])
        folder.mkdir()
        _write(folder / "part-0.parquet", OUTCOME, found)
        return folder


_WRITTEN: dict[str, bytes] = {}


def _write(path: Path, columns: Sequence[TraceColumn], rows: Sequence[Sequence[Any]]) -> None:
    """Write rows as the program does; what was written before as it came out then, for a tenth of the CPU."""
    told = hashlib.sha256(repr((columns, rows)).encode()).hexdigest()
    if told in _WRITTEN:
        path.write_bytes(_WRITTEN[told])
    else:
        write_rows(path, columns, rows)
        _WRITTEN[told] = path.read_bytes()


def usual_load() -> Load:
    """Return 50 sessions of 6 transactions of a read and a write, and 6 long reads."""
    random, load = np.random.default_rng(1), Load()
    for session in range(SESSIONS):
        statements, at = [], session * 500
        for turn in range(ROUNDS):
            statements += [
                Statement(READ, at, int(random.uniform(8_000, 12_000)), 2 * turn),
                Statement(WRITE, at + 15_000, int(random.uniform(18_000, 22_000)), 2 * turn, [str(turn), str(session)]),
                Statement(LONG, at + 50_000, int(random.uniform(80_000, 120_000)), 2 * turn + 1),
            ]
            at += 400_000
        load.sessions[session] = statements
    return load


def noisy(seed: int, factor: dict[str, float] | None = None):
    """Return how long statements take in a run: as captured, with a scatter of 10 %, by a factor for some texts."""
    random = np.random.default_rng(seed)
    return lambda one: one.took * random.lognormal(0, 0.1) * (factor or {}).get(one.sql, 1.0)
