"""Write docs/reference/samples.md from model/sample_tables.py.

Run `python tools/sample_docs.py`, or with `--check` to exit 1 when the page is not what the tables say.
"""

from __future__ import annotations

import sys
from pathlib import Path

from generated import keep_page
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import Column, SampleTable

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "samples.md"
_HEAD = """<!-- Made by tools/sample_docs.py from src/pgdyno/model/sample_tables.py: edit there. -->

# Samples

What is read once a second while a trial runs, each table in the store under its own name. Every table has `run_id`,
the trial's number, and `t`, seconds since the epoch; all rows of one reading have the same `t`, so tables join on
`(run_id, t)`. Sampling falls on whole seconds, with one reading more at the beginning and at the end.

- A *gauge* is the value at `t`.
- A *delta* is what a counter grew by in the `interval_s` seconds that end at `t`. Deltas add: `sum()` over a window
  is the total of that window. In the tables of PostgreSQL's counters every `count` is a delta unless it says gauge.
- A rate (`1/s`, `kB/s`) or a percentage is the mean over the same interval.
- NULL means that the machine or the version does not have it, or that there was nothing to divide by; never 0.
- A missed second has no row; the row after it has a longer `interval_s`. A counter that was reset, as after a crash
  of the server, has no row for that interval and an event `stats_reset` says so.

```sql
-- Throughput beside WAL, waits and the disk, second by second (SQLite and PostgreSQL)
SELECT d.t, d.xact_commit / d.interval_s AS tps, w.bytes / w.interval_s AS wal_bytes_per_s, s.waiting, c.foreign_cpu_pct
FROM database AS d
JOIN wal AS w USING (run_id, t) JOIN sessions AS s USING (run_id, t) JOIN cpu AS c USING (run_id, t)
WHERE d.run_id = 12
ORDER BY d.t;

-- Mean lock concurrency by mode: divide by the seconds of `sessions`, because a second without locks has no row
SELECT mode, sum(granted) * 1.0 / (SELECT count(*) FROM sessions WHERE run_id = 12) AS mean_held
FROM locks WHERE run_id = 12 GROUP BY mode;
```

A counter of PostgreSQL's statistics reaches the views up to a second after the work was done, so neither edge of a
window is sharp. The session that reads them sits in the database `pgdyno_observer` (in `postgres` where that does not
exist), is no part of what it counts in `locks`, `sessions` and `waits`, and commits nothing in the load's database.
"""


def page() -> str:
    """Return the text of the page."""
    index = "".join(
        f"| [`{table.name}`](#{table.name}) | {_first_sentence(table.doc)} |\n" for table in TABLES.values()
    )
    return f"{_HEAD}\n| Table | What it holds |\n|---|---|\n{index}" + "".join(map(_section, TABLES.values()))


def _section(table: SampleTable) -> str:
    rows = "".join(map(_row, table.columns))
    return f"\n## {table.name}\n\n{table.doc}\n\n| Column | Type | Unit | Meaning |\n|---|---|---|---|\n{rows}"


def _row(column: Column) -> str:
    key = "; one row for each" if column.key else ""
    return f"| `{column.name}` | {column.kind} | {column.unit} | {column.doc.replace('|', chr(92) + '|')}{key} |\n"


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")


if __name__ == "__main__":
    sys.exit(keep_page(page(), PAGE, sys.argv))
