"""The YBIO shape without a server: the order of its rows, its classes, its figures, its loop's words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts_from_params import make_facts
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.facts import Unknown
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, TrialState
from pgdyno.sandbox.memory_group import count_reads
from pgdyno.workloads.disk_room import ROOM, require_disk
from pgdyno.workloads.loop_command import LoopCommand, SessionLoop
from pgdyno.workloads.pgbench.load import gap_text
from pgdyno.workloads.registry import check_driving, make_workload
from pgdyno.workloads.result import Gap, away_s
from pgdyno.workloads.script import Script
from pgdyno.workloads.session_loop import LoopJob, LoopStatement
from pgdyno.workloads.working_set import CLASSES, chosen, sized, without_class
from pgdyno.workloads.ybio.figures import plan_shape, rates, reads_between
from pgdyno.workloads.ybio.table import CHUNK, row_bytes, scattered_keys, segments_for

GB = 1 << 30


def order(rows: int, segments: int = 1) -> np.ndarray:
    return np.concatenate([keys for keys, _ in scattered_keys(rows, segments)])


@given(st.integers(1, 60_000), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_every_key_comes_once_however_the_table_is_cut(rows, segments):
    assert sorted(order(rows, min(segments, rows))) == list(range(1, rows + 1))


@pytest.mark.requirement("R-YBI-01")
@pytest.mark.parametrize("segments", [1, 2, 5])
def test_keys_are_scattered(segments):
    keys = order(400_000, segments)
    assert abs(np.corrcoef(keys, np.arange(len(keys)))[0, 1]) < 0.1


@pytest.mark.requirement("R-YBI-03")
def test_the_first_keys_of_a_cut_table_have_pages_of_their_own():
    rows, per_page = 400_000, 19
    pages = np.arange(rows) // per_page
    cut, whole = order(rows, 5), order(rows)
    for share in (1, 2, 3):
        touched = len(np.unique(pages[cut <= share * rows // 5]))
        assert touched / pages[-1] == pytest.approx(share / 5, rel=0.05)
    assert len(np.unique(pages[whole <= rows // 5])) > 0.95 * pages[-1], (
        "one segment: a fifth of the keys is everywhere"
    )
    assert 100 * per_page < CHUNK


@pytest.mark.parametrize(("rows", "touched", "segments"), [(500, 100, 5), (500, 200, 5), (500, 0, 1), (500, 500, 1)])
def test_the_cut_follows_from_the_rows_that_are_touched(rows, touched, segments):
    assert segments_for(rows * 10**6, touched * 10**6) == segments


def with_memory(limit, ram=32 * GB, free=10**13):
    facts = make_facts()
    return replace(facts, host=replace(facts.host, ram_bytes=ram, memory_limit_bytes=limit, data_disk_free_bytes=free))


@pytest.mark.requirement("R-YBI-04")
def test_classes_are_shares_of_memory_and_of_shared_buffers():
    facts = with_memory(22 * GB)
    for name, share in CLASSES.items():
        parameters, found = sized({"class": name}, facts)
        assert found is not None
        assert parameters["tab_rows"] == found.rows
        assert parameters["class"] == ""
        assert found.size / found.whole == pytest.approx(share, rel=0.001)
        assert str(found.rows).replace(",", "") in str(found).replace(",", "")
    assert [CLASSES[name] for name in ("fits-ram-twice", "fits-ram-once")] == [0.25, 0.5]
    assert CLASSES["exceeds"] > 1
    assert "cgroup" in str(sized({"class": "exceeds"}, facts)[1])
    assert "the host" in str(sized({"class": "exceeds"}, with_memory(32 * GB))[1])
    assert sized({"tab_rows": 5}, facts) == ({"tab_rows": 5}, None)


def test_a_class_that_cannot_be_is_refused_with_a_way_out():
    with pytest.raises(UsageError, match='class "huge"'):
        sized({"class": "huge"}, with_memory(GB))
    with pytest.raises(UsageError, match="cannot be used together"):
        sized({"class": "exceeds", "tab_rows": 5}, with_memory(GB))
    with pytest.raises(UsageError, match="unknown"):
        sized({"class": "exceeds"}, with_memory(Unknown("no /proc")))
    with pytest.raises(EnvironmentUnsuitable, match="of disk"):
        sized({"class": "exceeds"}, with_memory(GB, free=GB))
    with pytest.raises(UsageError, match='class "huge"'):
        without_class({"class": "huge"})
    with pytest.raises(UsageError, match="more than"):
        chosen("exceeds", 1 << 45, "x", filler=1)
    with pytest.raises(UsageError, match="only on a server"):
        make_workload("ybio", {"class": "exceeds"})


def test_what_a_class_stands_for_is_left_out_of_the_check_before_a_server_is_asked():
    assert without_class({"class": "exceeds", "memory": "1GB", "filler": 9}) == {"filler": 9}
    assert without_class({"tab_rows": 5}) == {"tab_rows": 5}


def test_data_and_their_clone_must_fit_the_disk_before_they_are_loaded():
    require_disk("workload x", GB / ROOM, with_memory(GB, free=GB), "")
    require_disk("workload x", 99 * GB, with_memory(GB, free=Unknown("remote")), "")
    with pytest.raises(EnvironmentUnsuitable, match=r"workload x needs about 2\.2") as caught:
        require_disk("workload x", GB, with_memory(GB, free=GB), "Take fewer.")
    assert caught.value.hint == "Take fewer."


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"shape": "triangle"}, "script or procedure"),
        ({"driver": "x"}, "pgbench or loop"),
        ({"run_duration": 3}, "shape=procedure"),
        ({"iterations": 5}, "driver=loop"),
    ],
)
def test_words_that_do_not_go_together_are_refused(parameters, words):
    with pytest.raises(UsageError, match=words):
        make_workload("ybio", parameters)


def test_a_row_takes_about_what_was_measured():
    assert row_bytes(400) * 2_000_000 == pytest.approx((868 + 43) * (1 << 20), rel=0.05)


@pytest.mark.requirement("R-YBI-08")
def test_rates_name_whose_reads_they_are():
    latency = LatencySummary(1, 2, 3, 4, 5, mean=1.5)
    counters = {"window_s": 10.0, "blks_hit": 900.0, "blks_read": 100.0, "disk_reads": 50.0}
    outcome = Outcome(TrialState.COMPLETE, latency_ms=latency, steady_from=100.0, ended_at=110.0, counters=counters)
    found = rates(outcome)
    assert (found["response_ms"], found["logical_reads_per_s"], found["buffer_misses_per_s"]) == (1.5, 100.0, 10.0)
    assert found["physical_reads_per_s_of_host"] == 5.0
    assert "physical_reads_per_s" not in found
    own = rates(outcome, [(99.0, 0), (111.0, 120)])
    assert own["physical_reads_per_s"] == pytest.approx(10.0)
    assert "physical_reads_per_s_of_host" not in own
    assert "physical_reads_per_1000_rows" not in own
    timed = rates(replace(outcome, throughput=2.0), [(99.0, 0), (111.0, 120)], batch=500)
    assert timed["physical_reads_per_1000_rows"] == pytest.approx(10.0)
    assert rates(Outcome(TrialState.UNSTEADY)) == {}


def test_a_counter_is_read_between_its_readings():
    assert reads_between([(0.0, 0), (10.0, 100)], 2.0, 4.0) == pytest.approx(20.0)
    assert reads_between([(0.0, 0)], 2.0, 4.0) is None
    assert reads_between([(5.0, 0), (6.0, 1)], 2.0, 4.0) is None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=8))
def test_gaps_of_several_sessions_are_counted_once(spans):
    gaps = [Gap(n, begin, begin + length, "x") for n, (begin, length) in enumerate(spans)]
    grid = np.arange(0.005, 110, 0.01)
    covered = np.zeros(len(grid), bool)
    for gap in gaps:
        covered |= (grid >= gap.from_s) & (grid < gap.to_s)
    assert away_s(gaps, 0.0, 110.0) == pytest.approx(covered.sum() * 0.01, abs=0.02 * (len(gaps) + 1))
    assert away_s(gaps, 0.0, 110.0) >= away_s(gaps, 20.0, 50.0)


def test_the_shape_of_a_plan_does_not_depend_on_the_keys():
    plan = "Aggregate\n  ->  Index Scan using i on t\n        Index Cond: ((mykey >= '{}'::bigint) AND (mykey <= {}))"
    assert plan_shape(plan.format(1, 2)) == plan_shape(plan.format(30, 400))
    assert plan_shape(plan.format(1, 2)) != plan_shape(plan.replace("Index Scan", "Bitmap Heap Scan").format(1, 2))


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("254:0 Read 207\n254:0 Write 3\n254:0 Total 210\n8:0 Read 5\nTotal 215\n", 212),
        ("254:0 rbytes=819200 wbytes=0 rios=7 wios=1 dbytes=0 dios=0\n8:0 rbytes=1 rios=2\n", 9),
        ("", 0),
    ],
)
def test_reads_of_a_cgroup(text, reads):
    assert count_reads(text) == reads


@pytest.mark.requirement("R-YBI-07")
def test_the_loop_is_that_of_the_source_unless_told_otherwise(tmp_path: Path):
    loop = make_workload("ybio", {"driver": "loop"}).loop
    assert isinstance(loop, SessionLoop)
    assert (loop.iterations, loop.pause_s) == (100, 0.001)
    plan = LoadPlan(clients=3, jobs=1, warmup_s=1.0, measure_s=2.0, protocol="simple")
    command = LoopCommand(loop, plan, (Script("read", 1, "x"),), tmp_path, "db")
    argv = command.argv()
    job = LoopJob.read(Path(argv[-1]))
    assert (job.clients, job.duration_s, job.prepare, job.dbname) == (3, 3.0, False, "db")
    assert job.statements == (LoopStatement(loop.statements[0].text, 100, ranged=True),)
    assert command.gaps() == ()
    with pytest.raises(UsageError, match="--rate"):
        LoopCommand(loop, replace(plan, rate=5.0), (), tmp_path, "db").argv()
    check_driving({"driver": "loop"}, plan)
    check_driving({"driver": "pgbench"}, replace(plan, rate=5.0))
    with pytest.raises(UsageError, match="--rate"):
        check_driving({"driver": "loop"}, replace(plan, rate=5.0))


@pytest.mark.parametrize(
    ("sessions", "words"), [((0,), "(1 session lost"), ((0, 0), "(1 session lost"), ((0, 3), "(2 sessions lost")]
)
def test_a_gap_says_how_many_sessions_were_lost(sessions, words):
    gaps = [Gap(session, 10.0 + n, 12.0 + n, "terminated") for n, session in enumerate(sessions)]
    assert words in gap_text(gaps, 20.0)
    assert gap_text([], 20.0) is None
