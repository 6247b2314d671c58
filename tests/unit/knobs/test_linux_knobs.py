"""Linux knobs beside PostgreSQL's: catalogue, policy, space, values and joint constraints."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_from_params import GB, all_names, make_facts
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import Scale, load_catalogue
from pgdyno.knobs.constraints import check
from pgdyno.knobs.linux import load_all_knobs, load_linux_catalogue
from pgdyno.knobs.linux_constraints import pages_needed
from pgdyno.knobs.policy import Durability, SearchPolicy, check_settings, load_policy, ruling_of
from pgdyno.knobs.space import (
    SearchSpace,
    build_space,
    configuration_to_point,
    point_to_configuration,
    starting_points,
)
from pgdyno.model import linux
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, KernelFact, Unknown

CATALOGUE = load_linux_catalogue()
VALUES = {
    linux.DIRTY_BYTES: "0", linux.DIRTY_RATIO: "20", linux.BACKGROUND_BYTES: "0", linux.BACKGROUND_RATIO: "10",
    linux.NR_HUGEPAGES: "0", linux.SWAPPINESS: "60", linux.OVERCOMMIT_MEMORY: "0", linux.OVERCOMMIT_RATIO: "50",
    linux.MIGRATION_COST: "500000", linux.AUTOGROUP: "1", linux.THP_ENABLED: "always", linux.THP_DEFRAG: "madvise",
    linux.READ_AHEAD: "128", linux.SCHEDULER: "mq-deadline", linux.GOVERNOR: "powersave", linux.SMT: "on",
    linux.SWAP_AREA: "0",
}  # fmt: skip
WORDS = {
    linux.THP_ENABLED: ("always", "madvise", "never"),
    linux.THP_DEFRAG: ("always", "defer", "defer+madvise", "madvise", "never"),
    linux.SCHEDULER: ("none", "mq-deadline", "kyber", "bfq"),
    linux.GOVERNOR: ("performance", "powersave"),
    linux.SMT: ("off", "on"),
}
WRITES = TrialBudget(measure_s=60, warmup_s=30, read_only=False, connections=16)
READS = replace(WRITES, read_only=True)


def fact(name: str, value: str | Unknown, obstacle: str | None = None) -> KernelFact:
    known = linux.LINUX[name]
    words, (least, most) = WORDS.get(name, known.words), known.bounds or (None, None)
    return KernelFact(name, value, "integer" if known.bounds else "enum", known.unit, least, most, words, obstacle)


def facts(*changed: KernelFact, swap: int = 4 * GB) -> Facts:
    made = make_facts(18, ram_bytes=64 * GB, cores=8)
    host = replace(made.host, swap_total_bytes=swap, huge_page_bytes=2 << 20)
    kernel = {name: fact(name, value) for name, value in VALUES.items()}
    return replace(made, host=host, kernel=kernel | {one.name: one for one in changed})


def space(given: Facts | None = None, budget: TrialBudget = WRITES, **flags: object) -> SearchSpace:
    return build_space(load_catalogue(), given or facts(), budget=budget, **flags)


def searched(made: SearchSpace) -> set[str]:
    return {name for name in made.names() if linux.is_linux_knob(name)}


def test_catalogue_and_policy_name_the_same_knobs() -> None:
    assert set(CATALOGUE) == set(linux.LINUX_KNOBS)
    assert not set(linux.LINUX_KNOBS) & all_names()
    assert len(load_all_knobs()) == len(CATALOGUE) + len(load_catalogue())
    assert all(knob.takes_effect is not None for knob in CATALOGUE.values())
    assert all(knob.takes_effect is None for knob in load_catalogue().values())


def test_scales_fit_the_kernel() -> None:
    for name, knob in CATALOGUE.items():
        assert (knob.scale is Scale.ENUM) == (not linux.LINUX[name].bounds), name
        assert len(knob.why) > 150, name


def test_what_can_hurt_the_host_is_never_class_a_and_never_searched_unasked() -> None:
    for name in (linux.NR_HUGEPAGES, linux.SMT, linux.OVERCOMMIT_MEMORY, linux.OVERCOMMIT_RATIO, linux.SWAP_AREA):
        ruling = ruling_of(name)
        assert ruling is not None
        assert ruling.durability is Durability.B
        assert ruling.search in (SearchPolicy.OPT_IN, SearchPolicy.MANUAL)
    assert all(load_policy().rulings[name].durability is not Durability.X for name in linux.LINUX_KNOBS)


def test_only_linux_adds_linux_knobs() -> None:
    assert searched(space()) == set()
    assert {out.name for out in space().excluded}.isdisjoint(linux.LINUX_KNOBS)
    assert searched(space(linux=True)) == {
        linux.DIRTY_BYTES, linux.BACKGROUND_BYTES, linux.SWAPPINESS, linux.THP_ENABLED, linux.THP_DEFRAG,
        linux.READ_AHEAD, linux.SCHEDULER, linux.GOVERNOR,
    }  # fmt: skip
    assert searched(space(include=[linux.DIRTY_BYTES])) == {linux.DIRTY_BYTES}
    assert space(only=[linux.SMT, "work_mem"]).names() == ("work_mem", linux.SMT)
    assert linux.SCHEDULER not in searched(space(linux=True, exclude=[linux.SCHEDULER]))


def test_counterparts_are_never_searched_together() -> None:
    assert linux.DIRTY_BYTES not in searched(space(linux=True, include=[linux.DIRTY_RATIO]))
    with pytest.raises(UsageError, match="counterparts"):
        space(include=[linux.DIRTY_BYTES, linux.DIRTY_RATIO])


LOCKED = fact(linux.SWAPPINESS, "60", "/proc/sys is read-only")
ABSENT = fact(linux.GOVERNOR, Unknown("no cpufreq"), "no cpufreq")
LONE = replace(fact(linux.SCHEDULER, "none"), choices=("none",))
MOOT = (
    (facts(swap=0), {}, linux.SWAPPINESS, "the host has no swap"),
    (facts(), {"budget": READS}, linux.DIRTY_BYTES, "read-only load"),
    (facts(), {"include": [linux.SMT], "budget": replace(WRITES, connections=8)}, linux.SMT, "than the 8 cores"),
    (facts(), {"include": [linux.NR_HUGEPAGES], "reload_only": True}, linux.NR_HUGEPAGES, "only reloads"),
    (facts(fact(linux.THP_ENABLED, "never")), {}, linux.THP_DEFRAG, "are off"),
    (facts(ABSENT), {}, linux.GOVERNOR, "no cpufreq"),
    (facts(LOCKED), {}, linux.SWAPPINESS, "cannot be written: /proc/sys is read-only"),
    (facts(LONE), {}, linux.SCHEDULER, 'one choice only, "none"'),
    (make_facts(18), {}, linux.SWAPPINESS, "were not read"),
    (facts(), {}, linux.SWAP_AREA, "set by hand only"),
)


@pytest.mark.parametrize(("given", "flags", "name", "words"), MOOT)
def test_a_knob_that_means_nothing_here_says_why(given: Facts, flags: dict[str, object], name: str, words: str) -> None:
    made = space(given, **{"linux": True, **flags})
    assert words in next(out.reason for out in made.excluded if out.name == name)


def test_the_search_does_not_try_bfq_and_keeps_it_where_it_is() -> None:
    assert space(linux=True)[linux.SCHEDULER].choices == ("none", "mq-deadline", "kyber")
    assert "bfq" in space(facts(fact(linux.SCHEDULER, "bfq")), linux=True)[linux.SCHEDULER].choices


@given(st.lists(st.floats(0, 0.999), min_size=8, max_size=8))
def test_points_are_text_that_the_kernel_reads_and_come_back(coordinates: list[float]) -> None:
    made, found = space(linux=True, only=sorted(searched(space(linux=True)))), facts()
    point = {d.name: d.from_unit(u) for d, u in zip(made.dimensions, coordinates, strict=True)}
    configuration = point_to_configuration(made, point)
    for name, value in configuration.items():
        assert value in WORDS[name] if name in WORDS else value.isdigit(), (name, value)
        assert not (name in linux.COUNTERPARTS and value == "0"), "0 means the counterpart, and is the baseline"
    assert check_settings(configuration, found) == configuration
    named = {name: point[name] for name in configuration}
    assert configuration_to_point(made, configuration, found) == made.default_point() | named


def test_the_baseline_stays_in_the_space_in_either_spelling() -> None:
    in_bytes = facts(fact(linux.DIRTY_BYTES, "50000000000"), fact(linux.DIRTY_RATIO, "0"))
    assert space(in_bytes, linux=True)[linux.DIRTY_BYTES].default == 50_000_000_000
    assert space(linux=True)[linux.DIRTY_BYTES].default == 0
    assert point_to_configuration(space(linux=True), space(linux=True).default_point()) == Configuration()


def test_settings_of_both_kinds_are_canonical_in_one_configuration() -> None:
    made = check_settings({"VM.dirty_bytes": "512MB", "work_mem": "8192", "block.scheduler": "NONE"}, facts())
    assert dict(made) == {"vm.dirty_bytes": "536870912", "work_mem": "8MB", "block.scheduler": "none"}
    assert dict(made.linux()) == {"vm.dirty_bytes": "536870912", "block.scheduler": "none"}
    assert dict(made.postgresql()) == {"work_mem": "8MB"}
    assert check_settings({"vm.dirty_bytes": "536870912"}, facts())["vm.dirty_bytes"] == "536870912"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"vm.dirty_bytes": "1GB", "vm.dirty_ratio": "10"}, "counterparts"),
        ({"vm.dirty_bytes": "4096"}, "outside of this server's range"),
        ({"block.scheduler": "cfq"}, "not one of none, mq-deadline, kyber, bfq"),
        ({"vm.dirty_byte": "1GB"}, "unknown knob"),
        ({"vm.swappiness": "300"}, "outside"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_settings(settings, facts())


def test_a_knob_that_this_machine_lacks_is_not_the_users_fault() -> None:
    with pytest.raises(EnvironmentUnsuitable, match=r"cpu\.governor") as caught:
        check_settings({"cpu.governor": "performance"}, facts(ABSENT))
    assert caught.value.detail == "No cpufreq."
    with pytest.raises(EnvironmentUnsuitable) as caught:
        check_settings({"vm.swappiness": "1"}, make_facts(18))
    assert caught.value.detail == "The kernel was not read."


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({linux.DIRTY_BYTES: "1000000", linux.BACKGROUND_BYTES: "1000000"}, "take half"),
        ({linux.BACKGROUND_RATIO: "20"}, "take half"),
        ({linux.BACKGROUND_BYTES: "1000000"}, None),
        ({linux.DIRTY_BYTES: "1000000", linux.BACKGROUND_RATIO: "30"}, None),
        ({linux.DIRTY_BYTES: "1000000", linux.DIRTY_RATIO: "30"}, "both set"),
        ({linux.NR_HUGEPAGES: "17"}, "the pool would be useless"),
        ({linux.NR_HUGEPAGES: "0"}, None),
        ({linux.NR_HUGEPAGES: "200"}, None),
        ({linux.NR_HUGEPAGES: "200", "shared_buffers": "1GB"}, "too few"),
        ({linux.NR_HUGEPAGES: "38912"}, "reserves 76 GB"),  # of another machine, with pages of 1 MB
        ({linux.NR_HUGEPAGES: "200", "huge_pages": "on"}, None),
        ({linux.NR_HUGEPAGES: "0", "huge_pages": "on"}, "pool is empty"),
    ],
)
def test_joint_constraints(settings: dict[str, str], words: str | None) -> None:
    refusal = check(Configuration.of(settings), facts(), connections=16)
    assert (refusal is None) if words is None else (refusal is not None and words in refusal.reason), refusal


@pytest.mark.parametrize(
    ("page_kb", "least", "most"), [(1024, 32768, 36000), (2048, 16384, 17300), (16384, 2048, 2170)]
)
def test_pages_are_computed_from_bytes_and_the_page_size(page_kb: int, least: int, most: int) -> None:
    found = facts()
    found = replace(found, host=replace(found.host, huge_page_bytes=page_kb << 10))
    pages = pages_needed({"shared_buffers": "32GB"}, found)
    assert isinstance(pages, int)
    assert least < pages < most


def test_a_bold_start_follows_the_tuning_guides() -> None:
    starts = starting_points(space(linux=True), facts(), connections=16, read_only=False)
    bold = point_to_configuration(space(linux=True), starts[-1])
    assert bold[linux.DIRTY_BYTES] == str(512 << 20)
    assert bold[linux.BACKGROUND_BYTES] == str(64 << 20)
    assert bold[linux.THP_ENABLED] == "never"


@pytest.mark.requirement("R-VER-15")
def test_the_environment_hash_covers_data_checksums() -> None:
    found = facts()
    names = {
        replace(found, server=replace(found.server, data_checksums=value)).environment_hash()
        for value in (True, False, Unknown("not shown"))
    }
    assert len(names) == 3


def test_the_environment_hash_covers_the_kernel() -> None:
    name = facts().environment_hash()
    assert facts().environment_hash() == name
    assert facts(fact(linux.SWAPPINESS, "10")).environment_hash() != name
    assert facts(fact(linux.SWAP_AREA, "1")).environment_hash() == name
    here = facts(fact(linux.GOVERNOR, Unknown("root may"))).environment_hash()
    assert here == facts(fact(linux.GOVERNOR, Unknown("you may not"))).environment_hash()
