"""Write docs/reference/trace.md from trace/schema.py.

Run `python tools/trace_docs.py`, or with `--check` to exit 1 when the page is not what the schema says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from generated import keep_page
from pgdyno.trace.schema import OUTCOME, TRACE, TRACE_VERSION, TraceColumn

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "trace.md"
_HEAD = """<!-- Made by tools/trace_docs.py from src/pgdyno/trace/schema.py: edit there. -->

# Traces

A trace is `NAME.parquet`, one row a statement in the order of `due_us`, `session`, `seq`, and `NAME.json` with what the
rows do not say: where they are from, what is missing, the digest of the first. The version is VERSION; a newer one is
refused by name. Both are private to their owner. [How to build one](../howto/build-a-trace.md).

- Times are whole microseconds. A log has milliseconds: statements of a session are placed so that each begins when the
  one before it has ended, or later, and takes as long as was logged; none moves by more than a millisecond.
- NULL is what the log does not say, never a default: a failed statement has no `execute_us`.
- The parse of a named statement is a row of its own. Parse and bind of an unnamed one are part of its row.
- Values are texts as the server logged them.

```sql
-- The ten classes that take most of the server's time (DuckDB)
SELECT fingerprint, count(*) AS calls, sum(execute_us) / 1e6 AS seconds, min(sql)
FROM 'load.parquet' GROUP BY fingerprint ORDER BY seconds DESC LIMIT 10;
```
"""


def page() -> str:
    """Return the text of the page."""
    outcome = "What a replay writes, a row for each statement of the trace, in the order in which they ended."
    head = _HEAD.replace("VERSION", str(TRACE_VERSION))
    return (
        f"{head}\n## Columns of a trace\n\n{_table(TRACE)}\n## Columns of an outcome\n\n{outcome}\n\n{_table(OUTCOME)}"
    )


def _table(columns: tuple[TraceColumn, ...]) -> str:
    rows = "".join(f"| `{one.name}` | {one.type} | {one.meaning} |\n" for one in columns)
    return f"| Column | Type | Meaning |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    sys.exit(keep_page(page(), PAGE, sys.argv))
