"""Readings of a host that is not this one: whole, failed, and the driver that is no part of its load."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import ConnectError
from pgdyno.linux.cpu import ServerCpu
from pgdyno.linux.host_texts import DistantReading, HostTexts, read_texts
from pgdyno.model.guard import Absent, Failed
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.shapes import plain, shaped
from pgdyno.owner.runner import LocalRunner
from pgdyno.probes.guards.memory import MemoryReading, OwnKills
from pgdyno.probes.guards.reader import GuardReader, HostTick
from pgdyno.probes.guards.volumes import Volume, VolumesReading
from pgdyno.probes.host import cpu
from pgdyno.probes.sampler import Sampler
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target

MEMORY = MemoryReading(1 << 30, 4 << 30, "the host", 7, 0, Absent("this host has no swap"), OwnKills("/g", 2))
VOLUME = Volume(10, 20, Path("/data"))
STAT = "cpu  {usr} 0 0 1000 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\nctxt 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"


class Host:
    """A host whose CPU has been busy for a second more with every reading."""

    def __init__(self) -> None:
        self.readings = 0
        self.is_cut = False

    def read_host(self) -> DistantReading:
        if self.is_cut:
            raise ConnectError("ssh://db1: the connection was lost")
        self.readings += 1
        texts = HostTexts({"stat": STAT.format(usr=100 * self.readings)}, {}, None, 100, 4096)
        return DistantReading(texts, 0.6 * self.readings, 0.1 * self.readings)

    def read_guards(self) -> dict[str, object]:
        if self.is_cut:
            raise ConnectError("ssh://db1: the connection was lost")
        return plain(HostTick(MEMORY, Failed("no right")))  # type: ignore[return-value]


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def target(host: Host) -> Target:
    nowhere = Postgres("host=/nonexistent/socket connect_timeout=2")
    here = Target("x", nowhere, LocalRunner(), None, Path("/"), None, False, None, ServerCpu.unavailable("there"))
    return replace(here, local=False, remote=host)  # type: ignore[arg-type]  # a double of what is asked here


@pytest.mark.parametrize("memory", [MEMORY, replace(MEMORY, stalled_us=Absent("no psi"), swapped_in=9), Failed("x")])
@pytest.mark.parametrize(
    "volumes", [VolumesReading(VOLUME, VOLUME, 5), VolumesReading(VOLUME, Absent("same"), 0), Absent("hidden")]
)
def test_guard_readings_arrive_whole(memory: MemoryReading | Failed, volumes: VolumesReading | Absent) -> None:
    tick = HostTick(memory, volumes)
    assert shaped(HostTick, json.loads(json.dumps(plain(tick)))) == tick


def test_guards_fail_when_the_line_is_cut(host: Host, target: Target) -> None:
    reader = GuardReader(target)
    assert reader.read(1.0).memory == MEMORY
    assert reader.read(1.0).volumes == Failed("no right")
    host.is_cut = True
    assert isinstance(reader.read(2.0).memory, Failed)


def test_the_driver_of_another_machine_is_no_part_of_what_keeps_the_host_busy() -> None:
    before = cpu.parse(STAT.format(usr=100), 100)
    after = cpu.parse(STAT.format(usr=300), 100)
    names = [column.name for column in TABLES["cpu"].columns]
    here, there = (
        dict(zip(names, cpu.row(before, after, cpu.CpuShares(0.0, 0.0, 0.0, is_here),
                                cpu.CpuShares(1.0, 5.0, 0.25, is_here), 1.0), strict=True))
        for is_here in (True, False)
    )  # fmt: skip
    assert here["foreign_cpu_pct"] == 0.0
    assert there["foreign_cpu_pct"] == pytest.approx(75.0)
    assert there["driver_cpu_s"] == here["driver_cpu_s"] == 5.0


def test_the_sampler_reads_the_host_that_it_is_told(host: Host, target: Target) -> None:
    times = iter([100.0, 101.0, 102.0, 103.0])
    sampler = Sampler(target, load_database="x", driver_pids=tuple, clock=lambda: next(times))
    sampler.take()
    rows = {row.table: row for row in sampler.take()}
    values = dict(zip((column.name for column in TABLES["cpu"].columns), rows["cpu"].values, strict=True))
    assert (values["server_cpu_s"], values["self_cpu_s"]) == pytest.approx((0.6, 0.1))
    assert values["foreign_cpu_pct"] == pytest.approx(30.0)
    host.is_cut = True
    assert "cpu" not in {row.table for row in sampler.take()}
    assert any("connection was lost" in str(event) for event in sampler.events())
    near = Sampler(replace(target, remote=None), load_database="x", driver_pids=tuple)
    assert [near.driver_is_here, sampler.driver_is_here, sampler.stop().driver_is_here] == [True, False, False]


def test_this_machine_is_read_as_a_distant_one_would_be() -> None:
    texts = read_texts()
    assert texts.text("meminfo").startswith("MemTotal")
    assert texts.failures.keys() <= {"pressure/cpu", "pressure/memory", "pressure/io"}
