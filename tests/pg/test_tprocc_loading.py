"""What is left of a TPROC-C-like population that is wrong, or whose loading was ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from pgdyno.errors import WorkloadError
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.target import Target
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.tprocc import tables

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("tprocc")]


@pytest.fixture
def target(sandbox18: Sandbox) -> Target:
    return sandbox18.target()


def test_data_that_were_loaded_wrong_are_refused(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("new_order", "stock", "customer"):  # the last two only take long: no condition misses them
        monkeypatch.setitem(tables.ROWS, name, lambda warehouses: iter(()))  # type: ignore[arg-type]
    load = make_workload("tprocc", {"warehouses": 1})
    told: list[str] = []
    with pytest.raises(WorkloadError, match="C05"):
        load.prepare(target, progress=told.append)
    monkeypatch.undo()
    assert any("loading 1 warehouse" in text and "%" in text for text in told)
    load.drop(target, template=True)


def test_a_load_that_ends_does_not_finish_the_tables_that_it_has_begun(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = make_workload("tprocc", {"warehouses": 3})
    interrupted, ended = threading.Event(), threading.Event()
    end_sessions = tables._Sessions.end

    def noted(sessions: tables._Sessions) -> None:
        end_sessions(sessions)
        ended.set()

    def waiting(make: Callable[[int], Iterator[bytes]]) -> Callable[[int], Iterator[bytes]]:
        def pieces(warehouses: int) -> Iterator[bytes]:
            for piece in make(warehouses):
                if interrupted.is_set():
                    ended.wait(60)  # for the main thread, which a busy machine may let run late
                yield piece

        return pieces

    monkeypatch.setattr(tables._Sessions, "end", noted)
    for name, make in tables.ROWS.items():
        monkeypatch.setitem(tables.ROWS, name, waiting(make))  # type: ignore[arg-type]

    def end(text: str) -> None:
        if text.endswith("%"):  # the first quarter or what has just passed it: rows are counted in large pieces
            interrupted.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load.prepare(target, progress=end)
    (template,) = target.postgres.fetch(
        "SELECT d.datname AS name FROM pg_database AS d WHERE d.datname LIKE 'pgdyno%template'"
        " ORDER BY d.oid DESC LIMIT 1"
    )
    made = target.postgres.fetch(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
        dbname=str(template["name"]),
    )
    assert len(made) < 4, "a quarter was sent: most of the nine tables had not been begun"
    assert load.drop(target, template=True) == (template["name"],)
