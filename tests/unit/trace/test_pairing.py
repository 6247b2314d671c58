"""Pairing of lines: any cut into segments gives the same rows, and values of any kind come back as they were bound."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.trace.pairing import NONE, Events, Pairing, Rows, _by_session
from pgdyno.trace.parquet import connection
from pgdyno.trace.rows import SETUP

LETTERS = "SXPNBTUDEFCQ."
line = st.tuples(
    st.integers(1, 3),
    st.sampled_from(LETTERS),
    st.integers(0, 3000),
    st.integers(NONE, 3),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.integers(0, 2),
)


def events(lines: list[tuple[int, str, int, int, int, int]]) -> Events:
    """Return lines in the order of time; those of a session are numbered."""
    numbers = dict[int, int]()
    rows = list[list[int]]()
    at = 1_000_000_000
    for rid, (sid, letter, passed, vx, ctl, text) in enumerate(lines):
        numbers[sid] = numbers.get(sid, 0) + 1
        at += passed
        rows.append([rid, sid, numbers[sid], at // 1000 * 1000, ord(letter), passed // 2, vx, NONE, ctl, text])
    columns = np.array(rows, np.int64).reshape(-1, len(fields(Events))).T
    return Events(*columns)


def paired(lines: list[tuple[int, str, int, int, int, int]], cuts: list[int]) -> tuple[object, ...]:
    """Return all rows that segments with these ends give, and what was counted."""
    whole, pairing = events(lines), Pairing()
    found, late = list[list[int]](), list[tuple[int, int, int]]()
    carried = np.zeros(0, np.int64)
    for begin, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        chosen = np.concatenate((carried, np.arange(begin, end)))
        result = pairing.pair(whole.take(chosen), again=begin, is_last=False)
        carried = np.sort(result.carried)
        found += rows_of(result.rows)
        late += result.late
    result = pairing.pair(whole.take(carried), again=len(lines), is_last=True)
    counts = (pairing.gaps, pairing.twice, pairing.orphans, pairing.cut, pairing.unworded)
    return sorted(found + rows_of(result.rows)), sorted(late + result.late), counts


def rows_of(rows: Rows) -> list[list[int]]:
    order = [name.name for name in fields(Rows)]
    order = ["sid", "seq", *(name for name in order if name not in ("sid", "seq"))]
    return np.array([getattr(rows, name) for name in order]).T.tolist()


@settings(max_examples=200)
@given(st.lists(line, min_size=1, max_size=30), st.data())
def test_any_cut_gives_the_same_rows(lines: list[tuple[int, str, int, int, int, int]], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(lines)), max_size=5)))
    assert paired(lines, cuts) == paired(lines, [])


def test_what_follows_an_execute_without_an_end_waits_for_its_parse_in_the_next_segment_too() -> None:
    lines = [
        (1, "P", 1, 1, 2, 2), (1, "P", 2, 2, 2, 1), (1, "X", 2, 2, 1, 2), (1, "B", 0, 2, 1, 1), (1, "E", 0, -1, 1, 1),
        (1, "E", 0, 1, 0, 2),
    ]  # fmt: skip
    assert paired(lines, [4]) == paired(lines, [])


@given(st.lists(line, min_size=1, max_size=30))
def test_rows_of_a_session_are_numbered_and_do_not_overlap(lines: list[tuple[int, str, int, int, int, int]]) -> None:
    rows, _, _ = paired(lines, [])
    assert isinstance(rows, list)
    names = ["sid", "seq", *(one.name for one in fields(Rows) if one.name not in ("sid", "seq"))]
    last = dict[int, tuple[int, int]]()
    for row in rows:
        one = dict(zip(names, row, strict=True))
        seq, end = last.get(one["sid"], (-1, 0))
        assert one["seq"] == seq + 1
        assert one["due"] >= end
        assert one["end"] == NONE or one["end"] >= one["due"]
        last[one["sid"]] = one["seq"], max(one["end"], one["due"])


@given(st.lists(st.tuples(st.sampled_from([0, 1, 0x10001, 0x10000, 0x6B07CF082405, (1 << 63) - 1]), st.integers(0, 9))))
def test_lines_come_by_session_and_number_whatever_their_order(lines: list[tuple[int, int]]) -> None:
    sids, numbers = np.array(lines, np.int64).reshape(-1, 2).T
    assert _by_session(sids, numbers).tolist() == np.lexsort((numbers, sids)).tolist()
    order = np.argsort(numbers, kind="stable")
    assert _by_session(sids[order], numbers[order]).tolist() == np.lexsort((numbers[order], sids[order])).tolist()


text = st.text(st.sampled_from("a'$1 =,NULL\n\\\"é☃."), max_size=20)


@settings(max_examples=20)
@given(st.lists(st.lists(st.none() | text, min_size=1, max_size=11), min_size=1, max_size=40))
def test_values_come_back_as_they_were_bound(rows: list[list[str | None]]) -> None:
    told = [
        ", ".join(
            f"${place} = " + ("NULL" if value is None else "'" + value.replace("'", "''") + "'")
            for place, value in enumerate(row, 1)
        )
        for row in rows
    ]
    with connection() as db:
        for macro in SETUP:
            if "MACRO" in macro:
                db.execute(macro)
        query = "SELECT bound(elements(one)), array_to_string(elements(one), ', ') = one FROM (SELECT unnest(?) AS one)"
        db.execute("SET preserve_insertion_order = true")
        assert db.execute(query, [told]).fetchall() == [(row, True) for row in rows]
        split = "SELECT string_split(unnest(?), chr(39)) AS pieces"
        plain = [len(row) < 10 and all(value is not None and "'" not in value for value in row) for row in rows]
        wanted = [(row if is_plain else None,) for row, is_plain in zip(rows, plain, strict=True)]
        assert (
            db.execute(f"SELECT CASE WHEN is_plain(pieces) THEN pieces[2:-:2] END FROM ({split})", [told]).fetchall()
            == wanted
        )


def test_a_cut_value_is_seen() -> None:
    with connection() as db:
        for macro in SETUP:
            if "MACRO elements" in macro or "MACRO is_plain" in macro:
                db.execute(macro)
        odd = ("$1'", "$1 = 'a', $2'b'", "$1 ='a' , $2 = 'b'")
        for told in ("$1 = 'a", "$1 = 'a', $2 = ", "$1 = 'a''", "x$1 = 'a'", "$1 = 'a'...", "$1 = a", *odd):
            found = db.execute(
                "SELECT array_to_string(elements($1), ', '), is_plain(string_split($1, chr(39)))", [told]
            )
            values, is_plain = found.fetchall()[0]
            assert values != told
            assert not is_plain
