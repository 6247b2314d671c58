"""On a target that was spoiled a replay names the classes that are slower by it, and no other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.model.verdict import Word
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.replay.rounds import compared_pair
from pgdyno.trace.fingerprints import fingerprint, normalized
from pgdyno.trace.parquet import write_meta, write_rows
from pgdyno.trace.schema import TRACE, TraceMeta
from replay_run import replayed

pytestmark = [pytest.mark.host, pytest.mark.pg, pytest.mark.slow, pytest.mark.alone]

AFFECTED = {"SELECT n FROM by_index WHERE id = $1", "SELECT n FROM by_cost WHERE id = $1"}
OTHERS = {"SELECT n FROM few WHERE id = $1", "UPDATE few SET n = n + $1 WHERE id = $2", "SELECT count(*) FROM few"}
ROWS, FEW = 400_000, 50


@pytest.mark.night("unit/trace/test_replay_comparison.py::test_a_class_that_is_slower_is_named_and_the_others_are_not")
def test_on_a_spoiled_target_the_affected_classes_are_named_and_no_other(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    sandbox = make_sandbox("spoiled")
    sandbox.start()
    postgres = sandbox.target().postgres
    for table, rows in (("by_index", ROWS), ("by_cost", ROWS), ("few", FEW)):
        postgres.execute(
            f"CREATE TABLE public.{table} AS SELECT i AS id, 0 AS n, repeat('x', 40) AS label "  # type: ignore[arg-type]  # a text of ours
            f"FROM generate_series(1, {rows}) AS g (i); CREATE INDEX ON public.{table} (id)",
            dbname="postgres",
        )
    postgres.execute("VACUUM ANALYZE", dbname="postgres")
    trace = five_classes(tmp_path / "five.parquet", postgres.parameters["user"])
    results = {("old", number): replayed(sandbox, trace, tmp_path, f"old-{number}") for number in (1, 2)}
    postgres.execute("DROP INDEX public.by_index_id_idx", dbname="postgres")
    postgres.execute("ALTER SYSTEM SET random_page_cost = 100000")
    postgres.execute("SELECT pg_reload_conf()")
    while postgres.fetch("SHOW random_page_cost")[0]["random_page_cost"] != "100000":
        time.sleep(0.05)
    results["new", 1] = replayed(sandbox, trace, tmp_path, "new-1")
    found = compared_pair(trace, results, 1, 2)
    assert not isinstance(found, str), found
    words = {one.text: one.word for one in found.statements.classes}
    assert words.keys() == AFFECTED | OTHERS, words
    assert {text for text, word in words.items() if word is Word.WORSE} == AFFECTED
    assert (found.word, found.exit_code) == (Word.WORSE, ExitCode.FINDINGS)
    assert "2 classes of statements" in found.sentence


def five_classes(path: Path, user: str, sessions: int = 40, each: int = 10, pause_us: int = 1_000_000) -> Path:
    """Write a trace of statements of the five classes, a transaction each.

    After pauses of a second an engine may be 100 ms late, so that runs count on a busy machine as well.
    """
    people = {"user": user, "database": "postgres", "application": "app", "implied": False}
    texts = sorted(AFFECTED | OTHERS)
    rows = list[dict[str, object]]()
    for session in range(sessions):
        mine, first = {**people, "session": session}, session * pause_us // sessions
        rows.append({**mine, "seq": 0, "kind": "connect", "due_us": first})
        for seq in range(1, each + 1):
            text = texts[(seq + session) % len(texts)].replace("$2", str(seq % FEW + 1)).replace("$1", "7")
            due = first + seq * pause_us
            rows.append(
                {**mine, "seq": seq, "kind": "simple", "sql": text, "tx": seq, "due_us": due, "end_us": due + 1000,
                 "execute_us": 1000, "fingerprint": fingerprint(text)}
            )  # fmt: skip
        rows.append({**mine, "seq": each + 1, "kind": "disconnect", "due_us": first + (each + 1) * pause_us})
    assert {normalized(str(row["sql"])) for row in rows if "sql" in row} == AFFECTED | OTHERS
    rows.sort(key=lambda row: (row["due_us"], row["session"], row["seq"]))
    names = [column.name for column in TRACE]
    digest = write_rows(path, TRACE, ([row.get(name) for name in names] for row in rows))
    count, seconds = sessions * each, (each + 2) * pause_us / 1e6
    write_meta(
        path,
        TraceMeta(1, "csvlog B", None, "1", "2026-01-01T00:00:00Z", seconds, sessions, count, count, 0, digest=digest),
    )
    return path
