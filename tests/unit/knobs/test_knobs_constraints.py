"""Joint constraints: impossible totals and orders are refused with their numbers, the baseline never."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts_from_params import GB, make_facts
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.constraints import check, refusals, require
from pgdyno.knobs.memory import demand, reserve_bytes, shared_bytes
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import SUPPORTED_MAJORS, Facts, Unknown

MB = 1 << 20
FACTS = make_facts(18, ram_bytes=24 * GB, cores=8)


def reason(settings: dict[str, str], facts: Facts = FACTS, connections: int = 10) -> str | None:
    refusal = check(Configuration.of(settings), facts, connections=connections)
    if refusal is None:
        return None
    assert set(refusal.knobs) & set(settings), "a refusal names a knob that the user set"
    return refusal.reason


@settings(deadline=None)
@given(st.sampled_from(SUPPORTED_MAJORS), st.integers(256 * MB, 64 * GB), st.integers(1, 64), st.integers(1, 2000))
def test_the_baseline_is_never_refused(major: int, ram: int, cores: int, connections: int) -> None:
    odd = {"max_parallel_workers": "64", "random_page_cost": "0.5", "work_mem": str(1 << 20)}
    for facts in (
        make_facts(major, ram_bytes=ram, cores=cores),
        make_facts(major, ram_bytes=ram, cores=cores, changed=odd),
        make_facts(major, ram_bytes=Unknown("?"), disk_free_bytes=Unknown("?"), standbys=Unknown("?")),
    ):
        assert list(refusals(BASELINE, facts, connections=connections)) == []
        same = Configuration.of({"work_mem": "4MB", "shared_buffers": "128MB"})
        if facts.settings["work_mem"].setting == "4096":
            assert check(same, facts, connections=connections) is None


def test_what_a_person_gives_is_refused_as_an_error_that_names_it() -> None:
    require(Configuration.of({"work_mem": "64MB"}), FACTS, connections=10, what="arm A")
    with pytest.raises(EnvironmentUnsuitable, match="arm B cannot be measured here: shared_buffers = 13GB") as caught:
        require(Configuration.of({"shared_buffers": "13GB"}), FACTS, connections=10, what="arm B")
    assert caught.value.hint == "Choose another value of shared_buffers."


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"min_wal_size": "4GB"}, ("min_wal_size = 4GB exceeds max_wal_size = 1GB",)),
        ({"max_wal_size": "64MB"}, ("min_wal_size = 80MB exceeds max_wal_size = 64MB",)),
        ({"min_wal_size": "16MB"}, ("min_wal_size = 16MB", "two segments of 16 MB")),
        ({"random_page_cost": "0.5"}, ("seq_page_cost = 1 exceeds random_page_cost = 0.5",)),
        ({"seq_page_cost": "5"}, ("seq_page_cost = 5 exceeds random_page_cost = 4",)),
        ({"max_parallel_workers": "16"}, ("max_parallel_workers = 16 exceeds max_worker_processes = 8",)),
        ({"max_parallel_workers_per_gather": "9"}, ("max_parallel_workers_per_gather = 9",)),
        ({"io_combine_limit": "256kB"}, ("io_combine_limit = 256kB exceeds io_max_combine_limit = 128kB",)),
        ({"autovacuum_max_workers": "20"}, ("autovacuum_worker_slots = 16",)),
        ({"max_connections": "3"}, ("max_connections = 3 leaves none",)),
        ({"max_connections": "12"}, ("max_connections = 12", "10")),
        ({"huge_pages": "on"}, ("pool is empty", "would not start")),
        ({"shared_buffers": "13GB"}, ("shared_buffers = 13GB is more than half of the memory of 24 GB",)),
        ({"work_mem": "2GB"}, ("10 sessions 80.2 GB", "24 GB", "2.4 GB for kernel and page cache")),
        ({"max_wal_size": "200GB"}, ("max_wal_size = 200GB lets the log grow by 199 GB", "200 GB are free")),
    ],
)
def test_refusals_name_their_numbers(settings: dict[str, str], parts: tuple[str, ...]) -> None:
    text = reason(settings)
    assert text is not None
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    "settings",
    [
        {"shared_buffers": "6GB", "work_mem": "64MB"},
        {"min_wal_size": "4GB", "max_wal_size": "16GB"},
        {"random_page_cost": "1.1", "seq_page_cost": "1"},
        {"max_parallel_workers": "16", "max_worker_processes": "16"},
        {"io_combine_limit": "256kB", "io_max_combine_limit": "1MB"},
        {"shared_buffers": "12GB"},
    ],
)
def test_sound_configurations_pass(settings: dict[str, str]) -> None:
    assert reason(settings) is None


@pytest.mark.requirement("R-SAF-08")
def test_memory_is_bounded_jointly() -> None:
    assert reason({"shared_buffers": "10GB"}) is None
    assert reason({"work_mem": "256MB"}) is None
    assert "can demand" in str(reason({"shared_buffers": "10GB", "work_mem": "256MB"}))


def test_the_formula_adds_up() -> None:
    configuration = {"work_mem": "10MB", "hash_mem_multiplier": "3", "temp_buffers": "16MB", "shared_buffers": "1GB"}
    wanted = demand(configuration, FACTS, connections=4)
    assert wanted.sessions == 4 * (8 + 16 + 10 * 3 * 2) * MB
    assert wanted.worker_count == 8
    assert wanted.workers == 8 * (8 + 60) * MB
    assert wanted.autovacuum == 3 * 64 * MB
    assert wanted.total == wanted.shared + wanted.sessions + wanted.workers + wanted.autovacuum
    more = {"autovacuum_work_mem": "2GB", "autovacuum_max_workers": "2"}
    assert demand(more, FACTS, connections=1).autovacuum == 4 * GB
    assert demand(more, make_facts(16), connections=1).autovacuum == 2 * GB, "vacuum ends at 1 GB up to 16"


@pytest.mark.parametrize(
    ("settings", "megabytes"),
    [
        ({}, 150), ({"shared_buffers": "1GB"}, 1086), ({"shared_buffers": "4GB"}, 4253),
        ({"shared_buffers": "16GB"}, 16823), ({"shared_buffers": "64GB"}, 67103), ({"max_connections": "500"}, 172),
        ({"max_connections": "2000"}, 239), ({"wal_buffers": "64MB"}, 210),
        ({"shared_buffers": "1GB", "max_connections": "1000"}, 1159),
        ({"shared_buffers": "32GB", "max_connections": "2000"}, 33732),
    ],
)  # fmt: skip
def test_shared_memory_is_close_to_what_postgres_18_reports(settings: dict[str, str], megabytes: int) -> None:
    assert shared_bytes(settings, FACTS) / MB == pytest.approx(megabytes, rel=0.025)


def test_the_reserve_is_a_tenth_and_never_most_of_a_small_machine() -> None:
    assert reserve_bytes(100 * GB) == pytest.approx(10 * GB)
    assert reserve_bytes(1 * GB) == 256 * MB
    assert reserve_bytes(512 * MB) == 128 * MB


def test_unknown_facts_refuse_only_what_they_would_have_to_judge() -> None:
    blind = make_facts(18, ram_bytes=Unknown("no access"), disk_free_bytes=Unknown("no access"))
    assert "unknown (no access)" in str(reason({"work_mem": "8MB"}, blind))
    assert "unknown (no access)" in str(reason({"max_wal_size": "2GB"}, blind))
    assert reason({"work_mem": "1MB"}, blind) is None
    assert reason({"random_page_cost": "1.1"}, blind) is None


def test_standby_ordered_knobs() -> None:
    settings = {"max_worker_processes": "16"}
    assert reason(settings) is None
    assert "standbys first" in str(reason(settings, make_facts(18, standbys=1)))
    assert "unknown" in str(reason(settings, make_facts(18, standbys=Unknown("not readable"))))


@pytest.mark.requirement("R-SAF-08")
def test_huge_pages_need_a_pool_that_covers_shared_memory() -> None:
    pool = make_facts(18, huge_pages_total=1000)  # of 2 MB, as the two shared_memory_size settings say
    assert reason({"huge_pages": "on"}, pool) is None
    assert "holds 1000 pages of 2 MB" in str(reason({"huge_pages": "on", "shared_buffers": "2GB"}, pool))
    assert reason({"huge_pages": "try", "shared_buffers": "2GB"}, pool) is None


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(0, 20))
def test_more_memory_never_makes_a_refused_total_acceptable(small: int, extra: int) -> None:
    less = Configuration.of({"work_mem": f"{1 << small}kB" if small > 6 else "64kB"})
    more = Configuration.of({**less, "shared_buffers": f"{128 + extra * 512}MB"})
    if check(less, FACTS, connections=50) is not None:
        assert check(more, FACTS, connections=50) is not None
