"""A trace that no log was read for: sessions that read and write a table of items, one statement after another."""

from __future__ import annotations

from pathlib import Path

from pgdyno.trace.fingerprints import fingerprint
from pgdyno.trace.parquet import write_meta, write_rows
from pgdyno.trace.schema import TRACE, TraceMeta

ITEMS = 500
INIT = (
    "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL, label text NOT NULL);\n"
    f"INSERT INTO item SELECT i, 0, 'label ' || i FROM generate_series(1, {ITEMS}) AS g (i);\n"
)
BY_KEY = "SELECT n FROM item WHERE id = {}"
READ, WRITE = "SELECT n FROM item WHERE label = 'label {}'", "UPDATE item SET n = n + 1 WHERE id = {}"


def made_trace(
    path: Path,
    *,
    sessions: int = 4,
    seconds: float = 62.0,
    pause_s: float = 0.1,
    apart_s: float = 0.003,
    by_key: bool = False,
    user: str = "app",
    database: str = "shop",
) -> Path:
    """Write the trace: each session sends a statement each `pause_s`, every fourth writes, and is answered in 1 ms.

    `apart_s` is from the begin of one session to that of the next. `by_key` reads by the key, and writes nothing.
    """
    rows = list[dict[str, object]]()
    each = int(seconds / pause_s)
    for session in range(sessions):
        people = {"user": user, "database": database, "application": "till", "implied": False, "session": session}
        first = round(session * apart_s * 1e6)
        rows.append({**people, "seq": 0, "kind": "connect", "due_us": first})
        for number in range(1, each + 1):
            text = BY_KEY if by_key else WRITE if number % 4 == 0 else READ
            sql = text.format((number * 7 + session) % ITEMS + 1)
            due = first + round(number * pause_s * 1e6)
            rows.append(
                {**people, "seq": number, "kind": "simple", "sql": sql, "tx": number, "due_us": due,
                 "end_us": due + 1000, "execute_us": 1000, "fingerprint": fingerprint(sql)}
            )  # fmt: skip
        rows.append({**people, "seq": each + 1, "kind": "disconnect", "due_us": first + round(seconds * 1e6)})
    rows.sort(key=lambda row: (row["due_us"], row["session"], row["seq"]))
    names = [column.name for column in TRACE]
    digest = write_rows(path, TRACE, ([row.get(name) for name in names] for row in rows))
    meta = TraceMeta(
        1, "csvlog B", None, "1", "2026-01-01T00:00:00Z", seconds, sessions, sessions * each, sessions * each, 0,
        digest=digest,
    )  # fmt: skip
    write_meta(path, meta)
    return path
