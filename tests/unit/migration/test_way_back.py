"""The way back to a source that was only read: what proves that it is as it was, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.errors import ExitCode
from pgdyno.migration.way_back import SourceSeen, _digest, evidence_of
from pgdyno.model.results.migrate import MigrateResult, ValidationResult, WayBack
from pgdyno.studies.migrate.words import back_text

RESULT = MigrateResult(study="s", elapsed_s=1.0, plan="shop", validation=ValidationResult())
BEFORE = SourceSeen(
    since="2026-01-01", is_read_only=False, wal=1000, written={"public.a": 5}, definitions={"table": "x"},
    settings={"work_mem": "4"}, links=("slot others",),
)  # fmt: skip


def back_of(after: SourceSeen) -> WayBack:
    return WayBack(evidence=evidence_of(BEFORE, after), seconds=0.2)


def test_a_source_that_nobody_wrote_to_is_proved_untouched_whatever_wal_it_wrote() -> None:
    back = back_of(replace(BEFORE, wal=9_000_000))
    assert back.differs == ()
    assert back_text(replace(RESULT, back=back)) == "rehearsed in 0.2 s: the source is proved untouched"
    assert "not rehearsed" in back_text(RESULT)


@pytest.mark.parametrize(
    ("after", "what", "told"),
    [
        (replace(BEFORE, written={"public.a": 7, "public.b": 1}), "rows", "2 rows of public.a; 1 row of public.b"),
        (replace(BEFORE, written={"public.a": 0}), "rows", "the counters of public.a were reset"),
        (replace(BEFORE, definitions={"table": "y"}), "definitions", "table is another"),
        (replace(BEFORE, settings={}), "settings", "work_mem is another"),
        (replace(BEFORE, links=("slot ours",)), "replication", "slot ours is new; slot others is gone"),
        (replace(BEFORE, since="2026-02-02"), "server", "since 2026-02-02, and before since 2026-01-01"),
        (replace(BEFORE, is_read_only=True), "sessions", "the source takes no writes"),
    ],
)
def test_what_is_not_as_it_was_is_named(after: SourceSeen, what: str, told: str) -> None:
    (one,) = back_of(after).differs
    assert (one.what, one.found) == (what, told)
    assert f"the source is not as it was: {what}: {told}" in back_text(replace(RESULT, back=back_of(after)))


def test_what_a_mover_left_on_the_source_is_a_fault() -> None:
    left = replace(RESULT, back=back_of(replace(BEFORE, links=("slot others", "slot pgdyno_migrate_1"))))
    assert left.faults == ("left on the source: slot pgdyno_migrate_1 is new",)
    assert left.exit_code is ExitCode.FINDINGS


def test_where_no_rows_are_counted_none_are_proved_unwritten() -> None:
    uncounted = replace(BEFORE, settings={"track_counts": _digest("off")})
    back = WayBack(evidence=evidence_of(uncounted, uncounted), seconds=0.2)
    assert back.differs == ()
    told = back_text(replace(RESULT, back=back))
    assert "proved" not in told
    assert told.endswith("nothing else differs, but rows unknown: track_counts is off, and the server counts none")
