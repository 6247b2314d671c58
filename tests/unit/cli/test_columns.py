"""Aligned columns: every cell whole, numbers to the right, and no line beyond the terminal where that can be had."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.cli.terminal.columns import column_lines, plan_lines, script_lines

NAMES = ("id", "what", "tps")
word = st.text("abc 12", max_size=12).map(str.strip)


def test_numbers_stand_to_the_right_and_no_line_ends_in_blanks() -> None:
    lines = list(column_lines(NAMES, [("a", "one", "5"), ("bcd", "", "12345")], {"tps"}))
    assert lines == ["id   what    tps", "a    one       5", "bcd        12345"]


@given(st.lists(st.tuples(word, word, word), max_size=9))
def test_a_pipe_gets_every_row_on_one_line_with_every_cell_whole(rows: list[tuple[str, ...]]) -> None:
    head, *lines = column_lines(NAMES, rows)
    assert head.split() == list(NAMES)
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert "".join(line.split()) == "".join("".join(row).split())


def test_the_widest_column_gives_way_to_the_terminal() -> None:
    rows = [("1", "x" * 30 + " " + "y" * 30, "7")]
    lines = list(column_lines(NAMES, rows, width=40))
    assert max(map(len, lines)) <= 40
    assert "".join(lines[1:]).count("x") == "".join(lines[1:]).count("y") == 30
    assert lines[1].split()[0] == "1"


def test_what_does_not_fit_side_by_side_is_a_paragraph_each() -> None:
    columns = ("study", "began", "kind", "trials", "workload", "result")
    row = ("20261125-223520-bench-adec", "2026-11-25 22:35:20", "bench", "1", "one select of an account", "44,954 tps")
    assert list(column_lines(columns, [row], width=60)) == [
        "20261125-223520-bench-adec",
        "  began: 2026-11-25 22:35:20, kind: bench, trials: 1,",
        "  workload: one select of an account, result: 44,954 tps",
    ]
    for width in range(30, 100):
        lines = list(column_lines(columns, [row, ("a", *[""] * 5)], width=width))
        assert max(map(len, lines)) <= width
        assert "44,954 tps" in "\n".join(lines)


def test_ten_thousand_rows_cost_a_moment() -> None:
    rows = [(str(at), "shared_buffers=4GB, " * 7, "1,234") for at in range(10_000)]
    began = time.process_time()
    assert sum(1 for _ in column_lines(NAMES, rows, {"tps"})) == 10_001
    assert time.process_time() - began < 5, "it takes some 0.1 s; a general table library took a hundred"


def test_a_word_is_whole_or_the_row_is_a_paragraph() -> None:
    rows = [("7", "needs shared_preload_libraries = pg_stat_statements", "3")]
    for width in range(26, 80):
        assert "shared_preload_libraries" in "\n".join(column_lines(NAMES, rows, width=width))
    assert next(column_lines(NAMES, rows, width=30)) == "id 7"


WORDS = "loads that read, " * 9
COMMAND = "pgbench -c 4 " + "-D name=value " * 12


def test_comments_of_a_script_fit_the_terminal_and_commands_stay_whole() -> None:
    quoted = f"#   {WORDS}"
    lines = list(script_lines([f"# data: {WORDS}", quoted, COMMAND], 80))
    assert lines[-2:] == [quoted, COMMAND]
    assert len(lines) > 3
    assert all(line.startswith("# ") and len(line) <= 80 for line in lines[:-2])
    assert list(script_lines([f"# {WORDS}"], None)) == [f"# {WORDS}"]


def test_lines_of_a_plan_are_wrapped_behind_their_label() -> None:
    for label, width in (("undo:   ", 8), ("outage   ", 9), ("  level 50 %: ", 4), ("servers: ", 9)):
        first, *more = plan_lines([label + WORDS], 80)
        assert more, label
        assert first.startswith(label)
        assert all(len(line) <= 80 and len(line) - len(line.lstrip()) == width for line in more), label
    assert list(plan_lines(["undo:   " + WORDS], None)) == ["undo:   " + WORDS]
