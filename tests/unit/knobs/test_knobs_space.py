"""The search space: inside of the server's bounds, never without the baseline, and honest about what it left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts_from_params import GB, make_facts
from pgdyno.errors import UsageError
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.constraints import check
from pgdyno.knobs.policy import SearchPolicy, check_settings
from pgdyno.knobs.space import (
    SearchSpace,
    build_space,
    configuration_to_point,
    point_to_configuration,
    starting_points,
)
from pgdyno.knobs.values import bounds
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import SUPPORTED_MAJORS, Facts, Unknown

CATALOGUE = load_catalogue()
SEARCHABLE = [name for name in CATALOGUE if CATALOGUE[name].search is not SearchPolicy.MANUAL]
SHORT_READ = TrialBudget(measure_s=8, warmup_s=5, read_only=True, connections=2)
SHORT_WRITE = TrialBudget(measure_s=20, warmup_s=5, read_only=False, restores=True, connections=8)
GENEROUS = TrialBudget(measure_s=7200, warmup_s=300, read_only=False, connections=32, analyzes=True)

machines = st.builds(
    make_facts,
    st.sampled_from(SUPPORTED_MAJORS),
    ram_bytes=st.integers(1 * GB, 1024 * GB),
    cores=st.integers(1, 256),
    disk_free_bytes=st.integers(0, 10_000 * GB),
    huge_pages_total=st.sampled_from([0, 4096]),
)


def everything(facts: Facts, budget: TrialBudget = GENEROUS) -> SearchSpace:
    return build_space(CATALOGUE, facts, include=[n for n in SEARCHABLE if n in facts.settings], budget=budget)


def reasons(space: SearchSpace) -> dict[str, str]:
    return {exclusion.name: exclusion.reason for exclusion in space.excluded}


@pytest.mark.requirement("R-SAF-03")
@settings(deadline=None, max_examples=50)
@given(machines)
def test_ranges_lie_inside_of_the_servers_bounds_and_hold_the_current_value(facts: Facts) -> None:
    space = everything(facts)
    assert len(space.dimensions) > 30
    for dimension in space.dimensions:
        fact = facts.settings[dimension.name]
        if dimension.kind == "choice":
            for word in dimension.choices:
                assert dict(check_settings({dimension.name: word}, facts)) == {dimension.name: word}
            assert dimension.default in dimension.choices
            continue
        low, high = bounds(fact)
        assert low <= dimension.low < dimension.high <= high
        assert all(low <= value <= high for value in dimension.special)
        for value in (dimension.low, dimension.high, dimension.default, *dimension.special):
            check_settings({dimension.name: dimension.to_text(value)}, facts)
    assert point_to_configuration(space, space.default_point()) == BASELINE


@settings(deadline=None, max_examples=50)
@given(machines)
def test_every_knob_is_searched_or_excluded_with_a_reason(facts: Facts) -> None:
    space = build_space(CATALOGUE, facts, budget=SHORT_WRITE)
    assert sorted([*space.names(), *reasons(space)]) == sorted(CATALOGUE)
    assert all(len(reason) > 10 for reason in reasons(space).values())


@settings(deadline=None, max_examples=50)
@given(machines, st.integers(1, 500), st.booleans(), st.booleans())
def test_starting_points_pass_the_constraints(facts: Facts, connections: int, read_only: bool, generous: bool) -> None:
    budget = TrialBudget(
        measure_s=7200 if generous else 10, warmup_s=5, read_only=read_only, connections=connections, analyzes=generous
    )
    space = build_space(CATALOGUE, facts, budget=budget)
    points = starting_points(space, facts, connections=connections, read_only=read_only)
    assert len(points) in (1, 2)
    for point in points:
        assert point.keys() == set(space.names())
        configuration = point_to_configuration(space, point)
        assert check(configuration, facts, connections=connections) is None
        assert check_settings(configuration, facts) == configuration
        assert configuration_to_point(space, configuration, facts) == point


def test_starting_points_are_what_advisors_say() -> None:
    facts = make_facts(18, ram_bytes=64 * GB, cores=16)
    budget = TrialBudget(measure_s=60, warmup_s=5, read_only=False, connections=40)
    space = build_space(CATALOGUE, facts, budget=budget)
    cautious, bold = (
        point_to_configuration(space, point) for point in starting_points(space, facts, connections=40, read_only=False)
    )
    assert (cautious["shared_buffers"], cautious["effective_cache_size"]) == ("16GB", "48GB")
    assert cautious["max_parallel_workers_per_gather"] == "0", "40 sessions leave no core of 16 idle"
    assert float(bold["random_page_cost"]) == pytest.approx(1.1)
    assert facts.settings["shared_buffers"].setting == "16384"


def test_an_unknown_memory_leaves_memory_knobs_out_and_says_so() -> None:
    facts = make_facts(18, ram_bytes=Unknown("not shown to us"), disk_free_bytes=Unknown("no host access"))
    space = build_space(CATALOGUE, facts, budget=GENEROUS)
    assert "unknown (not shown to us)" in reasons(space)["shared_buffers"]
    assert "unknown (no host access)" in reasons(space)["max_wal_size"]
    assert "jit" in space.names()
    assert starting_points(space, facts, connections=4, read_only=False) == []


def test_a_short_trial_does_not_search_what_needs_checkpoints() -> None:
    left_out = reasons(build_space(CATALOGUE, make_facts(18), budget=SHORT_WRITE))
    for name in ("max_wal_size", "checkpoint_timeout", "checkpoint_completion_target", "min_wal_size"):
        assert "needs 3 checkpoint cycles of 5:00 min" in left_out[name]
        assert "measure for 15:00 min" in left_out[name]
    assert "restored before each trial" in left_out["autovacuum_vacuum_scale_factor"]
    assert {"max_wal_size", "autovacuum_vacuum_scale_factor"} <= set(everything(make_facts(18)).names())


def test_a_checkpoint_interval_that_was_seen_counts_instead_of_the_timeout() -> None:
    seen = TrialBudget(measure_s=100, warmup_s=5, read_only=False, connections=8, checkpoint_interval_s=30)
    assert "max_wal_size" in build_space(CATALOGUE, make_facts(18), budget=seen).names()


def test_a_read_only_load_searches_no_write_knob_and_says_so() -> None:
    space = build_space(CATALOGUE, make_facts(18), budget=SHORT_READ)
    left_out = reasons(space)
    for name in ("max_wal_size", "wal_buffers", "wal_compression", "bgwriter_delay", "autovacuum_max_workers"):
        assert left_out[name] == "cannot show an effect under a read-only load"
    assert {"shared_buffers", "work_mem", "io_method", "random_page_cost"} <= set(space.names())
    assert 12 <= len(space.dimensions) <= 25
    assert 12 <= len(build_space(CATALOGUE, make_facts(18), budget=SHORT_WRITE).dimensions) <= 28


def test_needs_of_sessions_warmth_statistics_and_huge_pages() -> None:
    few = TrialBudget(measure_s=60, warmup_s=0, read_only=False, connections=2)
    left_out = reasons(everything(make_facts(18), few))
    assert "at least 6 concurrent sessions, and the load has 2" in left_out["commit_delay"]
    assert "no warm-up" in left_out["shared_buffers"]
    assert "analyzed" in left_out["default_statistics_target"]
    assert "vm.nr_hugepages = 0" in reasons(everything(make_facts(18)))["huge_pages"]
    assert (
        "huge pages, and that is unknown"
        in reasons(everything(make_facts(18, huge_pages_total=Unknown("?"))))["huge_pages"]
    )
    assert "huge_pages" in everything(make_facts(18, huge_pages_total=2048)).names()


@pytest.mark.requirement("R-TUN-06")
def test_reload_only_leaves_out_what_the_running_server_calls_postmaster() -> None:
    for major in SUPPORTED_MAJORS:
        facts = make_facts(major)
        space = build_space(CATALOGUE, facts, reload_only=True, budget=GENEROUS)
        assert all(facts.settings[name].context != "postmaster" for name in space.names())
        assert "restart" in reasons(space)["shared_buffers"]
        assert ("autovacuum_max_workers" in space.names()) == (major >= 18)


def test_a_knob_of_another_version_is_excluded_with_that_reason() -> None:
    left_out = reasons(build_space(CATALOGUE, make_facts(15), budget=GENEROUS))
    assert left_out["io_method"] == "PostgreSQL 15 does not have it, or does not show it to this user"


def test_words_come_from_the_running_server() -> None:
    assert everything(make_facts(14))["wal_compression"].choices == ("off", "on")
    assert everything(make_facts(18))["wal_compression"].choices == ("off", "pglz")
    built = make_facts(18, fields={"wal_compression": {"enumvals": ("pglz", "lz4", "zstd", "on", "off")}})
    assert everything(built)["wal_compression"].choices == ("off", "pglz", "lz4", "zstd")
    alias = make_facts(18, changed={"wal_compression": "on"})
    assert everything(alias)["wal_compression"].default == "on"
    assert "on" not in everything(make_facts(18, huge_pages_total=9))["huge_pages"].choices, "may not start"


def test_slru_buffers_are_a_choice_of_sizes_and_stand_at_their_automatic_value() -> None:
    space = everything(make_facts(18))
    assert space["transaction_buffers"].default == "0", "the view shows the computed 32 pages"
    assert space["multixact_offset_buffers"].default == "128kB"
    assert "64MB" in space["notify_buffers"].choices


def test_a_current_value_outside_of_the_range_widens_it() -> None:
    facts = make_facts(18, changed={"shared_buffers": "2048", "random_page_cost": "40", "work_mem": "64"})
    space = everything(facts)
    assert space["shared_buffers"].low == 2048
    assert space["random_page_cost"].high == 40
    assert space["work_mem"].low == 64
    assert space.default_point()["random_page_cost"] == 40


def test_an_automatic_setting_stands_at_its_automatic_value() -> None:
    for major in SUPPORTED_MAJORS:  # the view shows the computed size: 512 pages, or 4 MB
        facts = make_facts(major)
        assert facts.settings["wal_buffers"].setting == "512"
        assert everything(facts)["wal_buffers"].default == -1
    fixed = make_facts(18, changed={"wal_buffers": "512"})
    assert everything(fixed)["wal_buffers"].default == 512


def test_the_servers_own_bounds_cut_the_range() -> None:
    narrow = make_facts(18, fields={"work_mem": {"min_val": "2048", "max_val": "8192"}})
    assert (everything(narrow)["work_mem"].low, everything(narrow)["work_mem"].high) == (2048, 8192)
    without_prefetch = make_facts(17, fields={"effective_io_concurrency": {"max_val": "0", "setting": "0"}})
    assert "range is empty" in reasons(everything(without_prefetch))["effective_io_concurrency"]


@pytest.mark.requirement("R-TUN-05", "R-TUN-17")
def test_bounds_of_shared_buffers() -> None:
    dimension = everything(make_facts(18, ram_bytes=64 * GB))["shared_buffers"]
    assert (dimension.to_text(dimension.low), dimension.to_text(dimension.high)) == ("128MB", "32GB")


@pytest.mark.requirement("R-TUN-05")
def test_what_the_sources_search_is_searched_within_bounds_of_memory_and_version() -> None:
    names = {"shared_buffers", "work_mem", "max_parallel_workers_per_gather", "random_page_cost", "seq_page_cost"}
    for major in SUPPORTED_MAJORS:
        facts = make_facts(major, ram_bytes=16 * GB)
        space = everything(facts)
        assert {*names, "max_wal_size", "checkpoint_timeout", "checkpoint_completion_target"} <= {*space.names()}
        assert 64 <= float(space["work_mem"].low) <= float(space["work_mem"].high) <= 16 * (1 << 20), "kB"


def test_what_is_set_above_the_files_is_left_alone() -> None:
    facts = make_facts(18, fields={"work_mem": {"source": "database"}, "jit": {"source": "command line"}})
    left_out = reasons(build_space(CATALOGUE, facts, budget=GENEROUS))
    assert "ALTER DATABASE" in left_out["work_mem"]
    assert "command line" in left_out["jit"]


@pytest.mark.parametrize("standbys", [1, Unknown("pg_stat_replication is not readable")])
def test_standby_ordered_knobs_are_left_alone_with_a_standby(standbys: int | Unknown) -> None:
    big = {"cores": 32, "ram_bytes": 256 * GB}
    assert "max_worker_processes" in everything(make_facts(18, **big)).names()
    left_out = reasons(build_space(CATALOGUE, make_facts(18, standbys=standbys, **big), budget=GENEROUS))
    assert "standby" in left_out["max_worker_processes"]


def test_include_exclude_and_only() -> None:
    facts = make_facts(18)
    default = build_space(CATALOGUE, facts, budget=SHORT_READ)
    assert "enable_seqscan" not in default.names()
    assert "planner switches" in reasons(default)["enable_seqscan"]
    more = build_space(CATALOGUE, facts, include=["enable_seqscan"], exclude=["jit"], budget=SHORT_READ)
    assert set(more.names()) == {*default.names(), "enable_seqscan"} - {"jit"}
    assert reasons(more)["jit"] == "excluded by --exclude"
    assert set(build_space(CATALOGUE, facts, only=["work_mem", "geqo"], budget=SHORT_READ).names()) == {
        "work_mem",
        "geqo",
    }


@pytest.mark.parametrize("flag", ["include", "exclude", "only"])
def test_a_misspelt_knob_is_an_error_with_the_nearest_name(flag: str) -> None:
    with pytest.raises(UsageError, match='unknown knob "work_men"') as caught:
        build_space(CATALOGUE, make_facts(18), budget=SHORT_READ, **{flag: ["work_men"]})
    assert caught.value.hint is not None
    assert "work_mem" in caught.value.hint


def test_a_configuration_outside_of_the_space_is_no_point() -> None:
    space = build_space(CATALOGUE, make_facts(18), budget=SHORT_READ)
    with pytest.raises(UsageError, match="max_wal_size"):
        configuration_to_point(space, Configuration.of({"max_wal_size": "4GB"}), make_facts(18))


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(SUPPORTED_MAJORS), st.lists(st.floats(0, 1, exclude_max=True), min_size=120, max_size=120))
def test_points_and_configurations_round_trip(major: int, uniform: list[float]) -> None:
    facts = make_facts(major, cores=16, ram_bytes=64 * GB)
    space = everything(facts)
    point = {d.name: d.from_unit(u) for d, u in zip(space.dimensions, uniform, strict=False)}
    configuration = point_to_configuration(space, point)
    assert check_settings(configuration, facts) == configuration
    assert configuration_to_point(space, configuration, facts) == point
