"""The catalogue as data: complete, readable, and true to the servers that it is for."""

from __future__ import annotations

import re
import time

import pytest

from facts_from_params import all_names, settings_of
from pgdyno.errors import UsageError
from pgdyno.knobs.catalogue import Scale, load_catalogue, parse_catalogue
from pgdyno.knobs.policy import SearchPolicy, load_policy
from pgdyno.knobs.values import canonical_text
from pgdyno.model.facts import SUPPORTED_MAJORS
from pgdyno.model.linux import LINUX_KNOBS
from pgdyno.units import parse_quantity

CATALOGUE = load_catalogue()
FACT_NAMES = {"ram", "cores", "connections", "data_disk_free", "measure"}
TABLE = '[work_mem]\ngroup = "memory"\nscale = "log"\nlow = "1MB"\nhigh = "2GB"\nwhy = "{why}"\nsource = "the manual"\n'
TABLE = TABLE.format(why="It is the memory of one sort or hash before it spills to disk, and a long story.")


def test_every_searchable_parameter_has_a_knob_and_no_other() -> None:
    searchable = {
        name
        for name, ruling in load_policy().rulings.items()
        if ruling.search in (SearchPolicy.DEFAULT, SearchPolicy.OPT_IN)
    }
    searchable -= set(LINUX_KNOBS)  # test_linux_knobs.py has them
    assert searchable <= set(CATALOGUE)
    assert set(CATALOGUE) - searchable == {"max_connections", "wal_log_hints"}


def test_every_knob_exists_in_a_version() -> None:
    assert set(CATALOGUE) <= all_names()


@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_scales_and_words_fit_the_server(major: int) -> None:
    for name in set(CATALOGUE) & set(settings_of(major)):
        knob, fact = CATALOGUE[name], settings_of(major)[name]
        assert (knob.scale is Scale.ENUM) == (fact.vartype in ("enum", "bool") or bool(knob.choices)), name
        if knob.choices and fact.unit:  # SLRU buffers: the server takes multiples of 16 pages only
            assert [canonical_text(fact, text) for text in knob.choices] == list(knob.choices), name
            assert all(parse_quantity(text, fact.unit) % 16 == 0 for text in knob.choices), name
        if fact.vartype == "enum" and knob.choices:
            assert len(set(knob.choices) & set(fact.enumvals)) >= 2, name
        for value in knob.special:
            assert float(fact.min_val or 0) <= value <= float(fact.max_val or 0), f"{name} = {value} on {major}"


def test_ranges_use_known_facts_only() -> None:
    for knob in CATALOGUE.values():
        for expression in (knob.low, knob.high):
            if expression is not None:
                assert expression.names <= FACT_NAMES | all_names(), knob.name


def test_reasons_are_sentences_with_a_mechanism() -> None:
    reasons = [knob.why for knob in CATALOGUE.values()]
    assert len(set(reasons)) == len(reasons)
    for knob in CATALOGUE.values():
        assert len(re.findall(r"[.](?: |$)", knob.why)) >= 2 or ";" in knob.why or len(knob.why) > 120, knob.name
        assert knob.why.endswith("."), knob.name
        assert "  " not in knob.why, knob.name


def test_loads_quickly() -> None:
    load_catalogue.cache_clear()
    begin = time.process_time()
    load_catalogue()
    assert time.process_time() - begin < 0.5  # 25 ms on a quiet machine; a bound that no noise reaches


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('scale = "log"', 'scale = "cubic"', "work_mem: scale"),
        ('low = "1MB"\n', "", "needs low and high"),
        ('high = "2GB"', 'high = "2GB +"', "ends where a value is missing"),
        ('source = "the manual"', 'colour = "red"\nsource = "the manual"', 'work_mem: unknown key "colour"'),
        ("[work_mem]", "[fsync]", "fsync"),
        ("[work_mem]", "[no_such_knob]", "no_such_knob"),
        ('source = "the manual"', 'source = "the manual"\ninteractions = ["nonsense"]', "nonsense"),
        ('source = "the manual"', 'source = "the manual"\nneeds = { luck = true }', "luck"),
        ('source = "the manual"', 'source = "the manual"\nneeds = { vacuum_cycles = 11 }', "0 to 10 cycles"),
        ('source = "the manual"', 'source = "the manual"\nneeds = { connections = -1 }', "fewer than none"),
        ('source = "the manual"', 'source = "me"', "source 10"),
        ('source = "the manual"', 'source = "the manual"\nspecial = ["-1"]', "not a list of numbers"),
        ('source = "the manual"', 'source = "the manual"\nchoices = ["1MB"]', "for the enum scale"),
        ('source = "the manual"', "source = ", "not TOML"),
    ],
)
def test_a_slip_in_the_file_is_named(old: str, new: str, message: str) -> None:
    assert set(parse_catalogue(TABLE)) == {"work_mem"}
    assert old in TABLE
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_catalogue(TABLE.replace(old, new))


@pytest.mark.parametrize(
    "given",
    ["checkpoint_cycles = true", "vacuum_cycles = true", "connections = true", "connections = 1.0", 'connections = "1"',
     "warm_cache = 1"],
)  # fmt: skip
def test_true_is_no_number_of_what_a_trial_must_offer(given: str) -> None:
    with pytest.raises(UsageError, match=rf'work_mem: needs: "{given.partition(" ")[0]}" is'):
        parse_catalogue(f"{TABLE}needs = {{ {given} }}\n")


def test_true_is_no_special_value() -> None:
    assert parse_catalogue(f"{TABLE}special = [-1, 0.5]\n")["work_mem"].special == (-1.0, 0.5)
    with pytest.raises(UsageError, match='work_mem: "special" is not a list of numbers'):
        parse_catalogue(f"{TABLE}special = [true]\n")
