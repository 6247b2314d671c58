"""A load that sleeps because its scripts say so waits for no CPU, however busy the machine is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.bottleneck import Resource
from pgdyno.probes.bottleneck_judge import judge_bottleneck
from pgdyno.probes.run_figures import CpuFigures, LoadShape, RunFigures
from pgdyno.workloads.result import mean_pause_s
from pgdyno.workloads.script import Script
from pgdyno.workloads.script_statements import least_pause_s

CROWDED = CpuFigures(2, usr=62, sys=33, irq=2, iowait=0, steal=0, run_queue=10, server_share=0.01, driver_share=0.0,
                     foreign_share=0.96)  # fmt: skip
THINKING = LoadShape(clients=4, jobs=1, throughput=191, driver_cpu_s=0.17, load_s=16, over_network=False, pause_s=0.02)
RUN = RunFigures(THINKING, 12, moments=12, sessions=4, active=0.05, waits={"CPU:CPU": 0.05}, cpu=CROWDED)


@pytest.mark.requirement("R-MON-14")
def test_who_sleeps_is_limited_by_the_sleep_and_not_by_what_others_do_with_the_cpus() -> None:
    found = judge_bottleneck(RUN)
    assert found.resource is Resource.CLIENT
    assert "96 % were pauses that the load asks for" in found.evidence[0]
    awake = judge_bottleneck(replace(RUN, load=replace(THINKING, pause_s=0.0)))
    assert awake.resource is Resource.CPU, "without a pause the driver waits for its turn on the same CPUs"
    short = judge_bottleneck(replace(RUN, load=replace(THINKING, pause_s=0.005)))
    assert short.resource is Resource.CPU, "a quarter of the time in pauses leaves three quarters"


@pytest.mark.requirement("R-MON-14")
def test_who_sleeps_in_the_server_is_limited_by_that_too() -> None:
    waits = {"Timeout:PgSleep": 3.5, "CPU:CPU": 0.3}
    run = replace(RUN, load=replace(THINKING, pause_s=0.0), active=3.8, waits=waits)
    found = judge_bottleneck(run)
    assert found.resource is Resource.CLIENT
    assert "88 % was spent in pg_sleep, which the load's own statements call" in found.evidence[0]
    idle = replace(CROWDED, usr=2, sys=1, irq=0)
    assert judge_bottleneck(replace(run, cpu=idle)).resource is Resource.CLIENT, "on free CPUs as well"
    assert judge_bottleneck(replace(run, waits={"Timeout:PgSleep": 0.5, "CPU:CPU": 3.3})).resource is Resource.CPU


@pytest.mark.requirement("R-MON-14")
def test_pauses_under_a_rate_that_was_reached_hold_nothing_back() -> None:
    assert judge_bottleneck(replace(RUN, load=replace(THINKING, rate=190.0))).resource is Resource.NONE
    assert judge_bottleneck(replace(RUN, load=replace(THINKING, rate=400.0))).resource is Resource.CLIENT


@pytest.mark.requirement("R-MON-14")
def test_a_driver_that_has_room_is_not_what_would_be_next() -> None:
    cpu = CpuFigures(2, usr=30, sys=10, irq=0, iowait=0, steal=0, run_queue=2, server_share=0.8, driver_share=0.1)
    load = replace(THINKING, pause_s=0.0, throughput=500, driver_cpu_s=0.07 * 16)
    flushing = RunFigures(load, 12, moments=12, sessions=4, active=2.8, waits={"IO:WalSync": 2.4, "CPU:CPU": 0.1},
                          cpu=cpu)  # fmt: skip
    found = judge_bottleneck(flushing)
    assert found.resource is Resource.WAL_FLUSH
    assert found.second is None, "30 % between statements of a driver at 7 % of a core is no limit of the driver"
    full = replace(cpu, usr=70, sys=26)
    crowded = judge_bottleneck(replace(flushing, waits={"CPU:CPU": 2.6}, cpu=full))
    assert (crowded.resource, crowded.second) == (Resource.CPU, None)
    busy = judge_bottleneck(replace(flushing, load=replace(load, driver_cpu_s=0.6 * 16)))
    assert busy.second is Resource.CLIENT, "at 60 % of a core it is"


@pytest.mark.requirement("R-MON-14")
def test_time_is_counted_once() -> None:
    awake = judge_bottleneck(replace(RUN, load=replace(THINKING, pause_s=0.005)))
    shares = {one.resource: one.share for one in awake.candidates}
    assert shares[Resource.CPU] + shares[Resource.CLIENT] <= 1.001


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0.0),
        ("SELECT 1;\n\\sleep 20 ms\n", 0.02),
        ("\\sleep 1\nSELECT 1;\n  \\sleep 500us\n", 1.0005),
        ("\\set t random(1, 9)\nSELECT 1;\n\\sleep :t ms\n", 0.0),
        ("\\if :a\n\\sleep 5 s\n\\endif\nSELECT 1;\n", 0.0),
        ("SELECT '\\sleep 3'; -- \\sleep 4\n", 0.0),
    ],
)
def test_only_sleeps_with_a_written_time_are_counted(text: str | None, seconds: float) -> None:
    assert least_pause_s(Script("own", text=text)) == pytest.approx(seconds)


def test_a_mix_pauses_as_long_as_its_transactions_on_average() -> None:
    counts = {"a": 30, "b": 10}
    assert mean_pause_s(counts, {"a": 0.1}) == pytest.approx(0.075)
    assert mean_pause_s({}, {}) == 0.0
