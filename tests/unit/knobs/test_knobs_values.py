"""Values of settings: one spelling, the server's own bounds, and errors that name both."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts_from_params import make_facts, settings_of
from pgdyno.errors import UsageError
from pgdyno.knobs.policy import check_settings, load_policy
from pgdyno.knobs.values import canonical_text
from pgdyno.model.facts import SUPPORTED_MAJORS
from pgdyno.units import format_quantity

FACTS = make_facts(18)
SETTABLE = sorted(name for name, ruling in load_policy().rulings.items() if ruling.settable)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("shared_buffers", "4096MB", "4GB"),
        ("shared_buffers", " 524288 ", "4GB"),
        ("SHARED_BUFFERS", "4GB", "4GB"),
        ("wal_buffers", "-1", "-1"),
        ("work_mem", "4096", "4MB"),
        ("random_page_cost", "1.10", "1.1"),
        ("checkpoint_timeout", "900s", "15min"),
        ("checkpoint_timeout", "0.5h", "30min"),
        ("jit", "NO", "off"),
        ("jit", "tr", "on"),
        ("jit", "1", "on"),
        ("huge_pages", "TRY", "try"),
        ("huge_pages", "false", "off"),
        ("io_method", "Sync", "sync"),
        ("autovacuum_vacuum_cost_delay", "0.5", "0.5"),
    ],
)
def test_one_spelling(name: str, value: str, text: str) -> None:
    assert dict(check_settings({name: value}, FACTS)) == {name.lower(): text}


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("work_mem", "4kB", ("work_mem", "4kB", "64kB", "2147483647kB")),
        ("wal_buffers", "4TB", ("wal_buffers", "4TB", "-1", "2097144kB")),
        ("random_page_cost", "-1", ("random_page_cost", "-1", "1.79769e+308")),
        ("io_method", "magic", ("io_method", "magic", "sync, worker")),
        ("jit", "o", ("jit", '"o"', "boolean")),
        ("jit", "", ("jit", "boolean")),
        ("work_mem", "lots", ("work_mem", "lots")),
        ("work_mem", "4mb", ("work_mem", "4mb", '"mb"')),
        ("checkpoint_timeout", "4GB", ("checkpoint_timeout", "4GB")),
        ("random_page_cost", "nan", ("random_page_cost", "nan")),
        ("random_page_cost", "1e999", ("random_page_cost",)),
    ],
)
def test_errors_name_knob_value_and_bounds(name: str, value: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        check_settings({name: value}, FACTS)
    for part in parts:
        assert part in caught.value.message


def test_unknown_and_double_names() -> None:
    with pytest.raises(UsageError, match="unknown knob") as caught:
        check_settings({"work_men": "4MB"}, FACTS)
    assert caught.value.hint is not None
    assert "work_mem" in caught.value.hint
    with pytest.raises(UsageError, match="twice"):
        check_settings({"work_mem": "4MB", "Work_Mem": "8MB"}, FACTS)
    with pytest.raises(UsageError, match="unknown knob"):
        check_settings({"io_method": "sync"}, make_facts(17))


def test_a_fixed_setting_cannot_be_set() -> None:
    with pytest.raises(UsageError, match="cannot be changed"):
        canonical_text(settings_of(18)["block_size"], "8192")


@settings(deadline=None)
@given(st.sampled_from(SUPPORTED_MAJORS), st.sampled_from(SETTABLE), st.floats(0, 1))
def test_canonical_text_is_stable_and_inside_of_the_servers_bounds(major: int, name: str, share: float) -> None:
    fact = settings_of(major).get(name)
    if fact is None or fact.vartype not in ("integer", "real"):
        return
    low, high = float(fact.min_val), min(float(fact.max_val), 1e12)
    number = low + share * (high - low)
    text = canonical_text(fact, format_quantity(round(number) if fact.vartype == "integer" else number, fact.unit))
    assert canonical_text(fact, text) == text


@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_the_servers_own_value_is_always_accepted(major: int) -> None:
    for name in set(SETTABLE) & set(settings_of(major)):
        fact = settings_of(major)[name]
        canonical_text(fact, fact.setting)
