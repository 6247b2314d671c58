"""The queries that the documents show, run as they stand, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdyno.fleet.pod_log import read_pod
from pgdyno.store.catalogue import Store
from pgdyno.studies.matrix.imported_pods import import_pods
from pod_example import pod_text

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("howto/query-the-store.md", "reference/samples.md")


@pytest.fixture
def store(new_store: Callable[[], str]) -> Iterator[Store]:
    """A store with one run of two load generators, whose locks are known."""
    with Store.open(new_store()) as opened:
        import_pods(opened, [(read_pod(pod_text(index), name=str(index)), "") for index in (0, 1)])
        yield opened


def queries(page: str) -> list[str]:
    blocks = re.findall(r"```sql\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return [query.strip() for block in blocks for query in block.split(";") if query.strip()]


@pytest.mark.requirement("R-EXP-08")
def test_every_documented_query_runs_and_finds_what_was_kept(store: Store) -> None:
    found = {}
    with store.read() as connection:
        for page in PAGES:
            for query in queries(page):
                found[query] = connection.exec_driver_sql(query).mappings().all()
    assert len(found) >= 7
    (locks,) = [rows for query, rows in found.items() if query.startswith("WITH run")]
    (row,) = [row for row in locks if row["mode"] == "RowExclusiveLock"]
    assert (row["configuration"], row["connections"]) == ("default", 4)
    assert float(row["mean_held"]) == pytest.approx(6.5, abs=0.3)
    (generators,) = [rows for query, rows in found.items() if "JOIN instance" in query]
    assert [row["transactions"] for row in generators] == [1000, 1000]
