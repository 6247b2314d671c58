"""Range expressions: what they mean, and that nothing else is accepted."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.knobs.expressions import Quantity, parse
from pgdyno.model.facts import Unknown

MB, GB = 1 << 20, 1 << 30
NAMES: dict[str, Quantity | Unknown] = {
    "ram": Quantity(8 * GB, "bytes"),
    "cores": Quantity(4),
    "connections": Quantity(100),
    "measure": Quantity(60e6, "time"),
    "data_disk_free": Unknown("no permission"),
}


def value(text: str) -> Quantity | Unknown:
    return parse(text).evaluate(NAMES.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128MB", Quantity(128 * MB, "bytes")),
        ("25% of ram", Quantity(2 * GB, "bytes")),
        ("min(25% of ram, 1GB)", Quantity(GB, "bytes")),
        ("max(4MB, 25% of ram / connections)", Quantity(2 * GB / 100, "bytes")),
        ("ram / 1GB", Quantity(8)),
        ("1 + 2 * 3", Quantity(7)),
        ("(1 + 2) * 3", Quantity(9)),
        ("10 - 2 - 3", Quantity(5)),
        ("2 * cores", Quantity(8)),
        ("measure / 3", Quantity(20e6, "time")),
        ("min(30min, measure)", Quantity(60e6, "time")),
        ("max(1, 5, 3)", Quantity(5)),
        ("0.5", Quantity(0.5)),
    ],
)
def test_values(text: str, expected: Quantity) -> None:
    assert value(text) == expected


def test_a_missing_fact_makes_the_whole_unknown() -> None:
    assert value("max(1GB, 10% of data_disk_free)") == Unknown("no permission")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "ends where a value is missing"),
        ("1 +", "ends where a value is missing"),
        ("min(1, 2", 'expected ")"'),
        ("1 2", 'unexpected "2"'),
        ("128MBB", 'unit "MBB"'),
        ("ram; cores", 'unexpected ";"'),
        ("__import__('os')", "unexpected"),
        ("ram.real", "unexpected"),
        ("25% ram", 'expected "of"'),
        ("min", 'expected "("'),
        (")", 'unexpected ")"'),
    ],
)
def test_text_that_is_no_expression(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert problem in caught.value.message


@pytest.mark.parametrize("text", ["ram + measure", "ram * ram", "1 / 0", "cores / ram", "min(ram, 1)", "measure / ram"])
def test_kinds_that_do_not_fit(text: str) -> None:
    with pytest.raises(UsageError, match="range expression"):
        value(text)


def test_units_of_settings() -> None:
    assert Quantity(128 * MB, "bytes").in_units("8kB") == 16384
    assert Quantity(60e6, "time").in_units("s") == 60
    assert Quantity(7).in_units("8kB") == 7
    assert Quantity.of_setting(16384, "8kB") == Quantity(128 * MB, "bytes")
    with pytest.raises(UsageError):
        Quantity(1, "time").in_units("8kB")
    with pytest.raises(UsageError):
        Quantity(1, "bytes").in_units(None)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_parses_or_is_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse(text).text == text


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_arithmetic_is_arithmetic(a: int, b: int, c: int) -> None:
    assert value(f"{a} - {b} * {c} / {c} + min({a}, {b})") == Quantity(pytest.approx(a - b + min(a, b)))
