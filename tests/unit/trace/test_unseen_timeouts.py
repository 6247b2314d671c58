"""Errors of a lock_timeout that no log has, of role, database or server: `trace show` and a comparison tell them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.report.replay_page import replay_page
from pgdyno.report.sections import Report
from pgdyno.report.trace_page import trace_page
from pgdyno.trace.compared_rows import ReplaySide
from pgdyno.trace.comparing import compare_replay
from pgdyno.trace.parquet import digest_of, write_meta
from pgdyno.trace.schema import TRACE_VERSION, TraceMeta
from pgdyno.trace.summary import summarize
from replayed_load import Load, Statement, noisy, usual_load

SET, LOCKED = "SET lock_timeout = '1s'", "55P03"
UPDATE, NOWAIT = "UPDATE t SET a = $1 WHERE b = $2", "SELECT a FROM t FOR UPDATE NOWAIT"
UNSEEN = {60, 62}


def load_with_locks() -> Load:
    """Return a load in which four get no lock: by a timeout of the role, their own, one that was reset, or at once."""
    load = usual_load()
    for session, texts in ((60, (UPDATE,)), (61, (SET, UPDATE)), (62, (SET, "DISCARD ALL", UPDATE)), (63, (NOWAIT,))):
        rows = [Statement(text, 1_000_000 * place, 100, place) for place, text in enumerate(texts)]
        load.sessions[session] = [*rows[:-1], replace(rows[-1], sqlstate=LOCKED, took=0)]
    return load


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = load_with_locks().write(tmp_path / "load.parquet")
    with path.open("rb") as file:
        digest = digest_of(file)
    write_meta(path, TraceMeta(TRACE_VERSION, "csvlog B", None, None, "", 3.0, 54, 907, 607, 4, digest=digest))
    return path


def words_of(page: Report) -> str:
    return " ".join(str(one.blocks) for one in page.sections)


def test_show_counts_what_waited_for_a_lock_as_long_as_no_log_says(trace: Path) -> None:
    summary = summarize(trace)
    assert summary.unseen_timeouts == len(UNSEEN)
    page = words_of(trace_page(summary, "load"))
    assert "2 statements of SQLSTATE 55P03 got no lock within a lock_timeout that no statement of the session" in page


def test_a_comparison_says_of_missing_errors_that_their_timeout_is_in_no_log(trace: Path, tmp_path: Path) -> None:
    load = load_with_locks()
    had = {(session, len(load.sessions[session])): "" for session in (60, 61, 62, 63)}

    def told(name: str, answers: dict[tuple[int, int], str]) -> tuple[int, str]:
        parts = {
            side: tuple(load.replay(tmp_path / f"{name}-{side}", noisy(1), answers=given).glob("part-*"))
            for side, given in (("a", {}), ("b", answers))
        }
        found = compare_replay(trace, *(ReplaySide(side, files) for side, files in parts.items()))
        return found.errors.unseen_timeouts, words_of(replay_page(found))

    count, page = told("free", had)
    assert count == len(UNSEEN)
    assert "Of the missing ones, 2: a lock that was not had in time (55P03), by a lock_timeout of the role" in page
    count, page = told("as-captured", {(60, 1): LOCKED, (61, 2): ""})
    assert (count, "lock_timeout of the role" in page) == (0, False)
