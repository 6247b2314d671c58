"""Rules on buffers and caches: a start value from the memory that is there, and what the working set changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import GB, MB, finding_of, make_case, make_host, make_server
from pgdyno.advisor.engine import advise
from pgdyno.advisor.memory_size import buffers_bytes, cache_bytes, nominal_bytes
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import LogEvidence, Statistics, Window, WorkingSet, WorkingSetClass, WorkloadClass
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Cost, ProofState, Severity
from pgdyno.model.inventory import Database, SwapArea
from pgdyno.units import parse_quantity

SWAP = (SwapArea("/dev/sdc", "partition", 8 * GB, 0, -2),)


def memory_host(ram=128 * GB, **memory):
    host = make_host(ram_bytes=ram)
    return replace(host, memory=replace(host.memory, **memory))


def working_set(kind, high=5 * GB):
    return WorkingSet(kind, high // 2, high, "pages of the top tables")


def in_blocks(size):
    return str(size // 8192)


def proposal(finding):
    return next((change.value for change in finding.changes), None)


@pytest.mark.requirement("R-PG-12", "R-PG-13", "R-PG-43")
def test_quarter_and_three_quarters_of_128_gib():
    buffers = finding_of("shared-buffers", make_case())
    cache = finding_of("effective-cache-size", make_case())
    assert (proposal(buffers), buffers.cost) == ("32GB", Cost.RESTART)
    assert (proposal(cache), cache.cost) == ("96GB", Cost.RELOAD)
    assert "allocates nothing" in cache.why
    figures = {(effect.low, effect.high) for effect in buffers.effects}
    assert {(0.35, 0.35), (None, 0.12)} <= figures
    assert {effect.together_with for effect in buffers.effects if effect.figure} == {"effective_cache_size"}
    assert all(effect.low is None for effect in cache.effects)


def test_a_value_that_waits_for_a_restart_is_told():
    """As after ALTER SYSTEM: what is asked for may have been done already."""
    server = make_server()
    assert not any("restart" in line for line in finding_of("shared-buffers", make_case(server=server)).evidence)
    waiting = replace(server.settings["shared_buffers"], pending_restart=True)
    server = replace(server, settings={**server.settings, "shared_buffers": waiting})
    assert "waits for a restart" in finding_of("shared-buffers", make_case(server=server)).evidence[-1]


@pytest.mark.requirement("R-PG-12")
def test_what_the_kernel_keeps_for_itself_does_not_bend_the_figure():
    finding = finding_of("shared-buffers", make_case(memory_host(limit_bytes=131_900_000 * 1024)))
    assert proposal(finding) == "32GB"
    assert nominal_bytes(14 * GB) == 14 * GB
    assert nominal_bytes(120 * GB) == 120 * GB


@pytest.mark.requirement("R-PG-12")
def test_cgroup_counts_and_is_not_rounded():
    finding = finding_of("shared-buffers", make_case(memory_host(limit_bytes=14 * GB, limited_by="cgroup v2")))
    assert parse_quantity(proposal(finding), "GB") == 3.5
    assert "cgroup v2" in finding.evidence[0]


@pytest.mark.requirement("R-PG-17")
@given(
    memory=st.integers(64 * MB, 1 << 46),
    by_ram=st.booleans(),
    kind=st.sampled_from([None, *WorkingSetClass]),
)
def test_never_more_than_half_of_the_memory(memory, by_ram, kind):
    assert buffers_bytes(memory, by_ram, kind) <= memory / 2
    assert cache_bytes(memory, by_ram) <= memory


@pytest.mark.requirement("R-PG-17")
@given(ram=st.integers(256 * MB, 1 << 44), current=st.integers(128 << 10, 1 << 43))
def test_no_proposal_is_above_half_whatever_is_in_force(ram, current):
    server = make_server(changed={"shared_buffers": in_blocks(current)})
    finding = finding_of("shared-buffers", make_case(make_host(ram_bytes=ram), server))
    if finding.changes:
        assert parse_quantity(proposal(finding), "B") <= ram / 2


@pytest.mark.requirement("R-PG-16", "CON-09")
@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (WorkingSetClass.EXCEEDS, 0.9 * GB, 1.3 * GB),
        (WorkingSetClass.RAM_ONCE, 2.0 * GB, 2.3 * GB),
        (WorkingSetClass.RAM_TWICE, 5.4 * GB, 5.5 * GB),
    ],
)
def test_working_set_decides(kind, low, high):
    case = make_case(make_host(ram_bytes=22 * GB), working_set=working_set(kind), workload=WorkloadClass.READ_ONLY)
    finding = finding_of("shared-buffers", case)
    assert low <= parse_quantity(proposal(finding), "B") <= high
    assert str(kind).split()[0] in finding.resolutions[0].decided
    assert (finding.state is ProofState.NEEDS_TEST) is (kind is not WorkingSetClass.RAM_TWICE)


@pytest.mark.requirement("R-PG-16", "CON-09")
def test_working_set_in_shared_buffers_is_in_order():
    finding = finding_of("shared-buffers", make_case(working_set=working_set(WorkingSetClass.SHARED_BUFFERS, 64 * MB)))
    assert finding.answer is Answer.OK
    assert finding.resolutions[0].id == "CON-09"


@pytest.mark.parametrize("size", [28 * GB, 32 * GB, 48 * GB, 64 * GB])
def test_values_near_or_above_the_quarter_are_left(size):
    server = make_server(changed={"shared_buffers": in_blocks(size)})
    assert finding_of("shared-buffers", make_case(server=server)).answer is Answer.OK


@pytest.mark.requirement("R-PG-17")
def test_more_than_half_is_warned_about():
    server = make_server(changed={"shared_buffers": in_blocks(80 * GB)})
    finding = finding_of("shared-buffers", make_case(server=server))
    assert (finding.severity, proposal(finding)) == (Severity.WARNING, "32GB")


def test_buffers_that_hold_all_databases_are_enough():
    server = make_server(databases=(Database("app", 100 * MB),))
    assert finding_of("shared-buffers", make_case(server=server)).answer is Answer.OK


@pytest.mark.requirement("R-PG-14", "R-PG-15")
def test_eighth_and_half_are_alternatives():
    words = " ".join(finding_of("shared-buffers", make_case()).alternatives)
    assert "16 GB) lost nothing" in words
    assert "OOM killer in 2017" in words


@pytest.mark.requirement("R-PG-14", "CON-08")
def test_half_is_an_experiment_and_changes_nothing():
    finding = finding_of("shared-buffers-half", make_case(memory_host(swap=SWAP), kernel_oom_kills=0))
    assert (finding.answer, finding.state, finding.changes) == (Answer.FINDING, ProofState.NEEDS_TEST, ())
    assert "64GB" in finding.title
    for words in ("2023 half of the memory was faster", "OOM killer, which could not be reproduced in 2023"):
        assert words in finding.why
    assert finding.resolutions[0].id == "CON-08"


@pytest.mark.requirement("CON-08")
@pytest.mark.parametrize(
    ("memory", "evidence", "words"),
    [
        ({}, {}, "no swap"),
        ({"swap": SWAP}, {"kernel_oom_kills": 2}, "OOM killer struck 2"),
        ({"swap": SWAP, "group_oom_kills": 1}, {"kernel_oom_kills": 0}, "struck 1 times in the server's cgroup"),
        ({"swap": SWAP}, {"log": LogEvidence(("a",), 1, killed_by_9=1)}, "killed by signal 9"),
    ],
)
def test_half_is_not_offered_where_memory_is_short(memory, evidence, words):
    finding = finding_of("shared-buffers-half", make_case(memory_host(**memory), **evidence))
    assert finding.answer is Answer.NOT_APPLICABLE
    assert words in finding.reason
    assert finding.resolutions[0].id == "CON-08"


@pytest.mark.requirement("CON-08")
def test_kills_in_the_group_from_before_the_last_start_do_not_speak_against_half():
    log = LogEvidence(("a",), 1, started="2026-01-02 03:04:05")
    case = make_case(memory_host(swap=SWAP, group_oom_kills=1), kernel_oom_kills=0, log=log)
    assert finding_of("shared-buffers-half", case).answer is Answer.FINDING


@pytest.mark.requirement("CON-08")
def test_half_is_unknown_where_nobody_could_see_a_kill():
    finding = finding_of("shared-buffers-half", make_case(memory_host(swap=SWAP)))
    assert finding.answer is Answer.UNKNOWN
    assert "OOM killer" in finding.reason
    seen = finding_of("shared-buffers-half", make_case(memory_host(swap=SWAP), log=LogEvidence(("a",), 1)))
    assert seen.answer is Answer.FINDING


@pytest.mark.requirement("CON-08")
def test_half_needs_a_budget_that_holds():
    server = make_server(changed={"max_connections": "5000", "work_mem": str(64 * 1024)})
    finding = finding_of("shared-buffers-half", make_case(memory_host(swap=SWAP), server))
    assert "would demand" in finding.reason


@pytest.mark.requirement("R-ADV-11")
def test_small_cache_is_flagged_from_hits_and_evictions():
    server = make_server(changed={"shared_buffers": "128"})
    counters = Statistics(Window(10, "sampled"), hit_ratio=0.62, evictions_s=9000.0, blocks_read_s=9100.0)
    finding = finding_of("buffer-cache-small", make_case(server=server, statistics=counters))
    assert (finding.answer, finding.severity) == (Answer.FINDING, Severity.WARNING)
    assert "Buffers evicted to make room: 5,000 to 10,000 a second" in " ".join(finding.evidence)
    good = Statistics(Window(10, "sampled"), hit_ratio=0.99)
    assert finding_of("buffer-cache-small", make_case(server=server, statistics=good)).answer is Answer.OK


@pytest.mark.requirement("R-PG-16")
def test_double_buffering_is_told_in_figures():
    case = make_case(make_host(ram_bytes=22 * GB), working_set=working_set(WorkingSetClass.RAM_ONCE, 15 * GB))
    finding = finding_of("double-buffering", case)
    assert finding.answer is Answer.FINDING
    assert "22 GB of memory" in finding.evidence[0]


@pytest.mark.requirement("R-PG-18", "CON-38")
def test_used_is_total_less_available_and_huge_pages_count():
    fine = finding_of("memory-reserve", make_case())
    assert fine.answer is Answer.OK
    assert "64 GB of 128 GB are used" in fine.reason
    pool = memory_host(available_bytes=20 * GB, huge_pages_total=60 * 1024)
    finding = finding_of("memory-reserve", make_case(pool))
    assert "shared_buffers and the pool of huge pages take 120 GB" in " ".join(finding.evidence)
    assert finding.resolutions[0].id == "CON-38"


@pytest.mark.requirement("R-PG-18", "R-KRN-24")
@pytest.mark.parametrize(
    ("available", "answer"), [(1 * GB, Answer.FINDING), (9 * GB, Answer.OK), (Unknown("not read"), Answer.UNKNOWN)]
)
def test_what_a_host_has_left_is_not_its_containers(available, answer):
    host = memory_host(252 * GB, limit_bytes=14 * GB, limited_by="cgroup v2", group_available_bytes=available)
    finding = finding_of("memory-reserve", make_case(host))
    assert finding.answer is answer
    if answer is Answer.OK:
        assert "5 GB of 14 GB are used" in finding.reason


@pytest.mark.requirement("R-PG-18")
def test_little_memory_is_warned_about():
    assert finding_of("memory-reserve", make_case(memory_host(available_bytes=2 * GB))).answer is Answer.FINDING


def test_cache_estimate_above_the_memory_is_lowered():
    server = make_server(changed={"effective_cache_size": in_blocks(200 * GB)})
    assert proposal(finding_of("effective-cache-size", make_case(server=server))) == "96GB"


@pytest.mark.requirement("R-PG-16", "CON-09")
def test_large_buffers_are_lowered_only_where_the_working_set_exceeds_ram():
    server = make_server(changed={"shared_buffers": in_blocks(6 * GB)})
    host = make_host(ram_bytes=22 * GB)
    finding = finding_of("shared-buffers", make_case(host, server, working_set=working_set(WorkingSetClass.EXCEEDS)))
    assert parse_quantity(proposal(finding), "B") < 1.3 * GB
    assert finding_of("shared-buffers", make_case(host, server)).answer is Answer.OK


@pytest.mark.requirement("R-PG-12")
def test_memory_between_round_sizes_counts_as_it_is():
    assert nominal_bytes(69 * GB) == 69 * GB


FREE = ("waste", "unused", "not used", "smaller machine", "less memory would", "too much memory", "over-provision",
        "oversized", "idle memory", "save memory")  # fmt: skip


@pytest.mark.requirement("R-TUN-22")
@pytest.mark.parametrize("available", [0.5, 0.95])
@pytest.mark.parametrize("kind", [*WorkingSetClass])
def test_memory_that_nobody_asked_for_is_called_no_waste_and_no_smaller_machine_is_proposed(available, kind):
    """It is page cache: every rule of all is asked, on a machine most of whose memory is free."""
    host = memory_host(available_bytes=int(available * 128 * GB))
    case = make_case(host=host, working_set=working_set(kind))
    found = advise(case.inventory, case.evidence, shipped_rules())
    assert len(found) > 50
    for finding in found:
        said = " ".join((finding.title, finding.why or "", *finding.evidence)).lower()
        assert not [words for words in FREE if words in said], finding.rule
