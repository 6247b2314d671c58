"""The lines of postgresql.auto.conf: whatever a session did, the plan brings them back in their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import PolicyError
from pgdyno.routes.auto_conf import Line, after, first_wrong, list_words, plan
from pgdyno.routes.route_names import is_ours, may_hold_secret, refuse_strange

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
VALUES = st.sampled_from(["1", "2", "3"])


@st.composite
def files(draw: st.DrawFn) -> tuple[Line, ...]:
    names = draw(st.lists(NAMES, unique=True))
    return tuple(Line(name, draw(VALUES)) for name in names)


STATEMENTS = st.lists(st.builds(Line, NAMES, st.one_of(st.none(), VALUES)))


def run(lines: tuple[Line, ...], statements: list[Line]) -> tuple[Line, ...]:
    for statement in statements:
        lines = after(lines, statement)
    return lines


@given(files(), STATEMENTS)
def test_the_plan_undoes_every_history(originals: tuple[Line, ...], history: list[Line]) -> None:
    found = run(originals, history)
    assert run(found, plan(found, originals, lambda _: True)) == originals


@given(files(), STATEMENTS, st.integers(0, 20))
def test_a_plan_that_was_interrupted_is_planned_anew(
    originals: tuple[Line, ...], history: list[Line], done: int
) -> None:
    found = run(originals, history)
    found = run(found, plan(found, originals, lambda _: True)[:done])
    assert run(found, plan(found, originals, lambda _: True)) == originals


@given(files())
def test_nothing_to_do_is_no_statement(originals: tuple[Line, ...]) -> None:
    assert plan(originals, originals, lambda _: True) == []
    assert first_wrong(originals, originals) == len(originals)


@given(files(), STATEMENTS)
def test_what_is_not_ours_stays(originals: tuple[Line, ...], history: list[Line]) -> None:
    strange = Line("strange", "9")
    found = run((*run(originals, history), strange), history)
    brought_back = run(found, plan(found, originals, lambda name: name != "strange"))
    assert strange in brought_back
    assert tuple(line for line in brought_back if line != strange) == originals


def test_a_value_that_was_not_written_down_is_moved_with_what_it_has() -> None:
    originals = (Line("work_mem", "1"), Line("primary_conninfo", None), Line("jit", "off"))
    found = (Line("primary_conninfo", "password=x"), Line("jit", "off"), Line("work_mem", "2"))
    assert run(found, plan(found, originals, lambda _: True)) == (
        Line("work_mem", "1"),
        Line("primary_conninfo", "password=x"),
        Line("jit", "off"),
    )
    assert plan(found[1:], originals, lambda _: True) == [Line("work_mem", "1"), Line("jit", "off")]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("shared_preload_libraries", "pg_stat_statements, auto_explain", ["pg_stat_statements", "auto_explain"]),
        ("search_path", '"$user", public', ["$user", "public"]),
        ("search_path", '"odd ""name"", here"', ['odd "name", here']),
        ("shared_preload_libraries", "", [""]),
        ("work_mem", "4MB", ["4MB"]),
        ("DateStyle", "ISO, MDY", ["ISO, MDY"]),
        ("log_line_prefix", "%m, %p", ["%m, %p"]),
    ],
)
def test_only_lists_of_names_are_taken_apart(name: str, value: str, words: list[str]) -> None:
    assert list_words(name, value) == words


@given(st.lists(st.text(st.characters(exclude_categories=["C"]), min_size=1), min_size=1))
def test_a_quoted_list_is_read_as_it_was_written(words: list[str]) -> None:
    quoted = ", ".join('"' + word.replace('"', '""') + '"' for word in words)
    assert list_words("search_path", quoted) == words


@pytest.mark.parametrize(
    ("name", "ours", "secret"),
    [
        ("work_mem", True, False),
        ("shared_buffers", True, False),
        ("fsync", False, False),
        ("no_such_thing", False, False),
        ("primary_conninfo", False, True),
        ("ssl_passphrase_command", False, True),
        ("app.jwt_secret", False, True),
    ],
)
def test_which_names_are_touched_and_which_values_written_down(name: str, ours: bool, secret: bool) -> None:
    assert is_ours(name) is ours
    assert may_hold_secret(name) is secret
    if not ours:
        with pytest.raises(PolicyError, match=name):
            refuse_strange(["work_mem", name])
