"""The language of rule files: Kleene's logic on unknown facts, and nothing that could act."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import GB, make_case, make_host
from pgdyno.advisor.case import Case, Missing
from pgdyno.advisor.expression import parse_formula
from pgdyno.errors import UsageError
from pgdyno.model.evidence import SAMPLED, SINCE_RESET, Settled, Statistics, Window
from pgdyno.model.facts import Unknown

UNKNOWN = "ram > 0"
"""Unknown in the case below, whose RAM could not be read; CPUs and pages could."""
ATOMS = {"cpus == 8": True, "cpus > 8": False, UNKNOWN: None}
Truth = bool | None


def case_without_ram() -> Case:
    host = make_host()
    return make_case(replace(host, memory=replace(host.memory, ram_bytes=Unknown("EPERM"))))


def kleene(tree: object) -> Truth:
    match tree:
        case str():
            return ATOMS[tree]
        case ("not", one):
            value = kleene(one)
            return None if value is None else not value
        case ("and", *parts):
            values = [kleene(part) for part in parts]
            return False if False in values else None if None in values else True
        case ("or", *parts):
            values = [kleene(part) for part in parts]
            return True if True in values else None if None in values else False
    raise AssertionError(tree)


def written(tree: object) -> str:
    match tree:
        case str():
            return tree
        case ("not", one):
            return f"not ({written(one)})"
        case (word, *parts):
            return f" {word} ".join(f"({written(part)})" for part in parts)
    raise AssertionError(tree)


trees = st.recursive(
    st.sampled_from(list(ATOMS)),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner, inner),
    ),
    max_leaves=8,
)


@given(trees)
def test_logic_is_kleenes(tree: object) -> None:
    formula, expected = parse_formula(written(tree)), kleene(tree)
    if expected is None:
        with pytest.raises(Missing, match="RAM: EPERM"):
            formula.holds(case_without_ram())
    else:
        assert formula.holds(case_without_ram()) is expected


@pytest.mark.parametrize(
    "text",
    [
        "cpus.bit_length()",
        "().__class__",
        "ram.__class__.__mro__",
        "__import__('os')",
        "open('/etc/passwd')",
        "eval('1')",
        "[x for x in (1, 2)]",
        "lambda: 1",
        "setting.__globals__",
        "setting(name='work_mem')",
        "(cpus := 3)",
        "f'{cpus}'",
        "{'a': 1}",
        "cpus if ram else 1",
        "2 ** 999999",
        "1 << 99",
        "text('a')[0]",
        "*cpus",
        "await cpus",
        "nothing_known",
        "cpus ==",
        "import os",
        "min(*[1, 2])",
        "True.real",
        "b'x'",
        "None",
        "...",
    ],
)
def test_everything_outside_of_the_language_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="rule expression"):
        parse_formula(text)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_formula(text)


@pytest.mark.parametrize("text", ["\0", "not " * 5000 + "cpus", "(" * 5000 + "cpus" + ")" * 5000, "-" * 5000 + "1"])
def test_what_python_cannot_parse_is_refused_too(text: str) -> None:
    with pytest.raises(UsageError, match="rule expression"):
        parse_formula(text)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9), st.integers(1, 10**6))
def test_arithmetic_is_pythons(a: int, b: int, c: int) -> None:
    formula = parse_formula(f"({a}) + ({b}) * {c} - ({a}) / {c}")
    assert formula.value(make_case()) == a + b * c - a / c


def test_only_nodes_of_the_language_are_left() -> None:
    formula = parse_formula('setting("shared_buffers") < 0.25 * ram and not contains(text("huge_pages"), "on")')
    assert not any(isinstance(node, ast.Attribute | ast.Subscript | ast.Lambda) for node in ast.walk(formula.root))
    assert formula.holds(make_case()) is True


def test_kinds_that_do_not_fit_are_told_with_the_text() -> None:
    with pytest.raises(UsageError, match="is not a number"):
        parse_formula('ram + "1"').value(make_case())
    with pytest.raises(UsageError, match="division by zero"):
        parse_formula("ram / 0").value(make_case())


def test_units_are_bytes_and_seconds() -> None:
    case = make_case(make_host(ram_bytes=8 * GB))
    assert parse_formula('bytes("2GB") * 4 == ram').holds(case)
    assert parse_formula('setting("checkpoint_timeout") == seconds("5min")').holds(case)
    assert parse_formula('kernel < version("6.6") and kernel >= version("5.13")').holds(case)


@pytest.mark.parametrize("fact", ["commits_s", "temp_bytes_s"])
def test_a_rate_with_idle_days_in_it_is_unknown_to_a_rule(fact: str) -> None:
    """The same work in a day of which the load takes a minute, and in that minute."""
    for window, rate in ((Window(60, SAMPLED), 1000.0), (Window(86_400, SINCE_RESET), 1000.0 * 60 / 86_400)):
        case = make_case(statistics=Statistics(window, commits_s=rate, temp_bytes_s=rate))
        if window.is_mean_of_all:
            with pytest.raises(Missing, match="idle times"):
                parse_formula(f"{fact} < 100").value(case)
        else:
            assert parse_formula(f"{fact} < 100").value(case) is False


def test_a_hit_ratio_is_of_the_present_shared_buffers_or_unknown_to_a_rule() -> None:
    """A rule that asks for more of them would fire for ever after they were raised."""
    began = "2026-01-02T00:00:00+00:00"
    since_reset = Statistics(Window(86_400, SINCE_RESET, began), hit_ratio=0.5)
    started = datetime.fromisoformat(began).timestamp()
    for restart, holds in ((started - 60, True), (started + 60, None)):
        case = make_case(statistics=since_reset, settled=Settled(restart, restart))
        if holds is None:
            with pytest.raises(Missing, match="shared_buffers may have had another value"):
                parse_formula("hit_ratio < 0.9").value(case)
        else:
            assert parse_formula("hit_ratio < 0.9").value(case) is True
