"""Lines of test_decoding, as PostgreSQL 15 wrote them, become commits in their order, with generated keys."""

from __future__ import annotations

import json

import pytest

from pgdyno.trace.commit_lines import CommitLines, CommittedTransaction

ORDERS = "public.orders"
FIRST = (
    "table public.orders: INSERT: id[integer]:1 \"We ird\"[text]:'it''s [x]: 5 id[integer]:7' a[integer[]]:'{1,2}' "
    "u[uuid]:'8b4c5bfc-648b-4588-8478-3ddeaaa7921a' b[bit]:B'101' n[numeric]:null "
    "t[timestamp with time zone]:'2026-11-26 06:45:32.324817+00' k[\"My]:Type\"]:'x'"
)
COMMIT = "COMMIT 739 (at 2026-11-26 06:45:32.326115+00)"
AT_US = 1_795_675_532_326_115


def read(*lines: str, **wanted: str) -> list[CommittedTransaction]:
    reader = CommitLines({ORDERS: frozenset(wanted)} if wanted else {})
    return [one for line in lines if (one := reader.take("0/156A868", line)) is not None]


def keys_of(line: str, *columns: str) -> object:
    reader = CommitLines({ORDERS: frozenset(columns)})
    reader.take("0/1", line)
    found = reader.take("0/1", COMMIT)
    assert found is not None
    return [[table, dict(values)] for table, values in found.keys]


def test_a_commit_has_its_transaction_place_and_moment() -> None:
    assert read("BEGIN 739", FIRST, COMMIT) == [CommittedTransaction(739, "0/156A868", AT_US)]


def test_of_a_row_the_columns_that_were_asked_for_are_kept_and_nothing_else() -> None:
    assert keys_of(FIRST, "id", "u") == [[ORDERS, {"id": "1", "u": "8b4c5bfc-648b-4588-8478-3ddeaaa7921a"}]]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ('"We ird"', "it's [x]: 5 id[integer]:7"),
        ("a", "{1,2}"),
        ("b", "101"),
        ("n", None),
        ("t", "2026-11-26 06:45:32.324817+00"),
        ("k", "x"),
    ],
)
def test_values_of_all_spellings_are_read_whole(column: str, value: str | None) -> None:
    assert keys_of(FIRST, column) == [[ORDERS, {column: value}]]


def test_keys_belong_to_their_own_transaction_and_updates_make_none() -> None:
    found = read(
        "BEGIN 740",
        "table public.orders: INSERT: id[integer]:2",
        "table public.orders: UPDATE: id[integer]:1",
        "table public.orders: INSERT: id[integer]:3",
        "COMMIT 740 (at 2026-11-26 06:45:32+00)",
        "BEGIN 741",
        "table public.orders: DELETE: id[integer]:1",
        "table other.orders: INSERT: id[integer]:9",
        COMMIT,
        id="id",
    )
    assert [one.keys for one in found] == [((ORDERS, {"id": "2"}), (ORDERS, {"id": "3"})), ()]
    assert json.loads(found[0].row()[3]) == [[ORDERS, {"id": "2"}], [ORDERS, {"id": "3"}]]
    assert found[1].row() == ("739", "0/156A868", str(AT_US), "")


@pytest.mark.parametrize("line", ["COMMIT", "COMMIT 1", "COMMIT x (at y)", "COMMIT 1 (at 2026-11-26 06:45:32+02)"])
def test_a_commit_without_a_moment_in_utc_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is no commit with its moment in UTC"):
        CommitLines({}).take("0/1", line)
