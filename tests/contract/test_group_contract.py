"""What a load of several generators must keep, as one of a single generator does: checked on a real server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import NIGHT
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.fleet.start import begin_load
from pgdyno.model.trial import LoadPlan
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.targets.target import Target
from pgdyno.workloads.protocol import RunningLoad, Workload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.result import LoadResult

pytestmark = pytest.mark.pg

PLAN = LoadPlan(clients=2, jobs=1, warmup_s=0.0, measure_s=2.0, rate=150.0, instances=3, seed=7)
"""At a rate, which leaves the CPUs to other tests: what is asserted is no speed."""
WORKLOADS: dict[str, dict[str, int]] = {"tpcb-like": {"scale": 2}, "select-only": {"scale": 2}}


@pytest.fixture(params=WORKLOADS if NIGHT else ["tpcb-like"], scope="module")
def workload(request: pytest.FixtureRequest, sandbox18: Sandbox) -> Iterator[Workload]:
    made = make_workload(request.param, WORKLOADS[request.param])
    made.prepare(sandbox18.target(), progress=lambda text: None)
    yield made
    made.drop(sandbox18.target(), template=True)


@pytest.fixture
def target(sandbox18: Sandbox) -> Target:
    return sandbox18.target()


@pytest.fixture
def begin(workload: Workload, target: Target, tmp_path: Path) -> Iterator[Callable[[LoadPlan], RunningLoad]]:
    begun: list[RunningLoad] = []

    def start(plan: LoadPlan) -> RunningLoad:
        dbname = workload.reset(target, policy="always")
        begun.append(begin_load(workload, target, dbname, plan, tmp_path))
        return begun[-1]

    yield start
    for load in begun:
        load.terminate()


def until(load: RunningLoad, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def history(target: Target, workload: Workload) -> int:
    dbname = workload.reset(target, policy="never")
    return int(str(target.postgres.for_load(dbname).fetch("SELECT count(*) AS n FROM pgbench_history")[0]["n"]))


def check_sums(result: LoadResult) -> None:
    assert result.transactions == sum(one.transactions for one in result.instances)
    assert result.transactions == sum(row.count for row in result.histograms)
    assert result.driver_cpu_s == pytest.approx(sum(one.driver_cpu_s or 0.0 for one in result.instances))
    for one in result.instances:
        rows = [row for row in result.histograms if row.instance == one.instance]
        assert sum(row.count for row in rows) == one.transactions


@pytest.mark.requirement("R-BEN-02", "R-BEN-22")
def test_a_group_adds_up_to_what_its_generators_did(
    begin: Callable[[LoadPlan], RunningLoad], workload: Workload, target: Target
) -> None:
    load = begin(PLAN)
    assert len(load.pids) == PLAN.instances == len(set(load.pids))
    result = load.finish()
    assert (result.reason, result.partial, result.exit_code, result.failed) == (None, None, 0, 0)
    assert [one.instance for one in result.instances] == [0, 1, 2]
    check_sums(result)
    assert result.transactions == len(result.log)
    assert LatencyHistogram.merged(row.blob for row in result.histograms).quantile_ms(1.0) > 0
    window = result.window(result.bins.origin_s, result.ended_at)
    assert window.throughput == pytest.approx(window.transactions / window.seconds)
    assert sum(one.throughput or 0.0 for one in result.instances) == pytest.approx(window.throughput, rel=0.01)
    assert 0 < result.bins.counts.sum() <= window.transactions
    if not workload.spec().read_only:
        assert history(target, workload) == result.transactions


@pytest.mark.requirement("R-BEN-02")
def test_all_generators_begin_together(begin: Callable[[LoadPlan], RunningLoad]) -> None:
    # At a low rate, so that those who have begun leave the others a CPU.
    result = begin(replace(PLAN, instances=6, clients=1, measure_s=4.0, rate=40.0)).finish()
    # From the opening of the gate to the moment at which the last of them has ended a transaction; each started alone,
    # one after another, would be as far apart as their interpreters take to start.
    assert result.bins.origin_s - result.began_at < 0.5 * (result.ended_at - result.began_at)
    firsts = [one.began_at for one in result.instances]
    assert len(set(firsts)) > 1, "each says when its own first transaction began"
    assert max(firsts) - min(firsts) < 0.5 * (result.ended_at - result.began_at)
    assert max(firsts) <= result.bins.origin_s, "all had begun before any is counted"


@pytest.mark.requirement("R-BEN-02")
def test_a_generator_that_is_killed_makes_the_load_partial_and_keeps_the_others(
    begin: Callable[[LoadPlan], RunningLoad],
) -> None:
    load = begin(replace(PLAN, measure_s=8.0))
    until(load, lambda: (reading := load.live()) is not None and reading.transactions > 0)
    os.kill(load.pids[1], signal.SIGKILL)
    before = load.live()
    result = load.finish()
    assert result.reason is None
    assert result.partial is not None
    assert result.partial.startswith("1 of 3 load generators ended early: number 1,")
    reasons = [one.reason for one in result.instances]
    assert reasons[0] is None
    assert reasons[1] is not None
    assert reasons[2] is None
    check_sums(result)
    others = [one for one in result.instances if one.reason is None]
    assert len(result.log) == sum(one.transactions for one in others)
    window = result.window(result.bins.origin_s, result.ended_at)
    assert window.throughput == pytest.approx(sum(one.throughput or 0.0 for one in others), rel=0.01)
    assert before is None or before.transactions <= result.transactions


def test_a_terminated_group_leaves_nothing_behind_and_says_so(begin: Callable[[LoadPlan], RunningLoad]) -> None:
    load = begin(replace(PLAN, measure_s=60.0))
    until(load, lambda: (reading := load.live()) is not None and reading.transactions > 0)
    assert not load.poll()
    load.terminate()
    assert load.poll()
    for pid in load.pids:
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)
    result = load.finish()
    assert result.partial is None
    assert result.reason is not None
    assert "all 3 load generators" in result.reason


def test_a_group_that_is_told_that_its_time_is_over_ends_whole(begin: Callable[[LoadPlan], RunningLoad]) -> None:
    load = begin(replace(PLAN, measure_s=60.0))
    until(load, lambda: load.live() is not None and (bins := load.series()) is not None and bool(bins.counts.sum()))
    series = load.series()
    load.let_end()
    until(load, load.poll)
    result = load.finish()
    check_sums(result)
    assert (result.reason, result.partial, result.malformed_lines) == (None, None, 0)
    assert result.ended_at - result.began_at < 50, "long before its own time was over"
    assert series is not None
    skipped = round(4 * (result.bins.origin_s - series.origin_s))
    assert skipped >= 0, "the whole begins when the last of them had begun"
    both = min(len(series.counts) - skipped, len(result.bins.counts))
    assert both > 0
    assert list(series.counts[skipped:][:both]) == list(result.bins.counts[:both])


@pytest.mark.requirement("R-BEN-03")
def test_generators_keep_to_their_cpus(begin: Callable[[LoadPlan], RunningLoad]) -> None:
    cpu = min(os.sched_getaffinity(0))
    load = begin(replace(PLAN, cpus=str(cpu)))
    assert [os.sched_getaffinity(pid) for pid in load.pids] == [{cpu}] * 3
    assert load.finish().partial is None


@pytest.mark.requirement("R-BEN-03")
def test_generators_have_limits_of_memory_and_cpu(
    begin: Callable[[LoadPlan], RunningLoad],
) -> None:
    plan = replace(PLAN, rate=None, instance_memory_bytes=256 << 20, instance_vcpus=0.5)  # as fast as that lets them
    try:
        load = begin(plan)
    except EnvironmentUnsuitable as error:
        pytest.skip(f"{error.message}: {error.detail}")
    lines = {line for pid in load.pids for line in Path(f"/proc/{pid}/cgroup").read_text().split()}
    groups = {line for line in lines if "pgdyno-driver-" in line}
    assert len(groups) >= PLAN.instances
    result = load.finish()
    assert result.partial is None
    # Half a CPU each: what they used stays below it, with room for the first period.
    for one in result.instances:
        assert (one.driver_cpu_s or 0.0) < 0.5 * (one.ended_at - one.began_at) + 0.3


def test_what_cannot_be_started_is_refused_whole(begin: Callable[[LoadPlan], RunningLoad]) -> None:
    with pytest.raises(UsageError, match="CPU 4000 is not one of those of this process"):
        begin(replace(PLAN, cpus="4000"))
    with pytest.raises(UsageError, match="instances 0"):
        begin(replace(PLAN, instances=0))
