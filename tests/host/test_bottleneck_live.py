"""What held a run back, for real: a device too slow for WAL, one too slow for data, a network that takes its time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from fix_postgres import NIGHT
from pgdyno.linux import processes
from pgdyno.model.bottleneck import BottleneckVerdict, Candidate, Resource
from pgdyno.model.trial import LoadPlan
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.server.postgres import Postgres
from real_laboratory import real_laboratory
from server_image import eventually
from small_volume import volume

pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts, cgroups and network namespaces need root"),
]
BLKIO = Path("/sys/fs/cgroup/blkio")
PLAN = LoadPlan(clients=8, jobs=1, warmup_s=2.0, measure_s=6.0 if NIGHT else 4.0)
UPDATE = "\\set id random(1, 2000)\nUPDATE item SET n = n + 1 WHERE id = :id;\n"
WIDE = """
CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL, filler char(1000) NOT NULL);
INSERT INTO item SELECT i, 0, '' FROM generate_series(1, 40000) i;
"""
READ = "\\set id random(1, 40000)\nSELECT n FROM item WHERE id = :id;\n"
DELAY = """
import asyncio, sys

async def pump(reader, writer, delay):
    loop = asyncio.get_running_loop()
    try:
        while data := await reader.read(1 << 16):
            loop.call_later(delay, writer.write, data)
    finally:
        loop.call_later(delay, writer.close)

async def meet(reader, writer):
    there = await asyncio.open_unix_connection(sys.argv[2])
    await asyncio.gather(pump(reader, there[1], float(sys.argv[3])), pump(there[0], writer, float(sys.argv[3])))

async def main():
    async with await asyncio.start_server(meet, sys.argv[1], 5432) as server:
        print("ready", flush=True)
        await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def on_its_own_device(make_sandbox: Callable[..., Sandbox], within: Path | None = None) -> Iterator[Sandbox]:
    """Give a running sandbox whose data lie on a loop device, in a volume or not; it is gone before the device is."""
    with volume(2 << 30, within) as root:
        sandbox = make_sandbox("on-a-loop", root=root)
        try:
            sandbox.start()
            yield sandbox
        finally:
            sandbox.destroy()


@contextmanager
def slow_device(sandbox: Sandbox, beneath: Path | None = None, **requests_per_s: int) -> Iterator[None]:
    """Bound how many requests to read or to write the running server may send to the device of its data each second.

    Or to the device of a volume beneath that one: the kernel holds back requests before the device that it bounds.
    From when the load runs: to load the data or to make the run's database through it would take twice as long as that.
    """
    if not BLKIO.is_dir():
        pytest.skip("no cgroup of version 1 bounds block I/O here")
    device = (beneath or sandbox.data_directory).stat().st_dev
    leader = postmaster_lock.postmaster_pid(sandbox.data_directory)
    assert leader is not None
    group = BLKIO / f"pgdyno-test-{uuid4().hex[:8]}"
    group.mkdir()
    try:
        for way, limit in requests_per_s.items():
            rule = f"{os.major(device)}:{os.minor(device)} {limit}"
            (group / f"blkio.throttle.{way}_iops_device").write_text(rule)
        move([leader], group)
        move([child.pid for child in processes.children_of(leader)], group)
        yield
    finally:
        eventually(lambda: left(group), f"{group} is empty")


def move(pids: Iterable[int], group: Path) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it ended meanwhile
            (group / "cgroup.procs").write_text(str(pid))


def left(group: Path) -> bool:
    """Move everybody out of a group and remove it; False while somebody is still on the way."""
    move(map(int, (group / "cgroup.procs").read_text().split()), BLKIO)
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def set_all(sandbox: Sandbox, **settings: str) -> None:
    for name, value in settings.items():
        sandbox.target().postgres.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    sandbox.stop()
    sandbox.start()


def of(found: BottleneckVerdict, resource: Resource) -> Candidate:
    (one,) = [one for one in found.candidates if one.resource is resource]
    return one


@pytest.mark.requirement("R-MON-14")
def test_a_device_that_takes_few_writes_is_wal_flush(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    with on_its_own_device(make_sandbox) as sandbox:
        set_all(sandbox, fsync="on", synchronous_commit="off")
        with real_laboratory(sandbox, tmp_path) as lab:
            freely = lab.run(UPDATE, PLAN)
            set_all(sandbox, fsync="on", synchronous_commit="on")
            with ExitStack() as slow:
                bound = lab.run(UPDATE, PLAN, when_loaded=lambda: slow.enter_context(slow_device(sandbox, write=60)))
            before, found = lab.evidence(freely).bottleneck, lab.evidence(bound).bottleneck
        assert before.resource is not Resource.WAL_FLUSH
        assert found.resource is Resource.WAL_FLUSH
        assert "WAL" in found.evidence[0]
        assert of(found, Resource.WAL_FLUSH).share > of(before, Resource.WAL_FLUSH).share
        assert bound.outcome is not None
        assert freely.outcome is not None
        assert bound.outcome.transactions < freely.outcome.transactions


@pytest.mark.requirement("R-MON-14", "R-MON-03")
def test_a_device_that_takes_few_reads_is_the_disk(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    with volume(3 << 30) as beneath, on_its_own_device(make_sandbox, beneath) as sandbox:
        set_all(sandbox, debug_io_direct="data", shared_buffers="16MB", autovacuum="off")
        with real_laboratory(sandbox, tmp_path) as lab:
            with ExitStack() as slow:  # far below what beside others the CPUs ask for
                limit = slow_device(sandbox, beneath, read=300)
                trial = lab.run(READ, PLAN, init=WIDE, when_loaded=lambda: slow.enter_context(limit))
            found = lab.evidence(trial).bottleneck
        disk, cpu = of(found, Resource.DISK), of(found, Resource.CPU)
        assert disk.share > 0.5, "where the sessions' time went, whoever else computes here"
        assert disk.share > 2 * cpu.share
        assert found.resource is Resource.DISK, "its requests are under way at the device, which no busy CPU hides"
        assert "DataFileRead" in disk.sentence
        assert [note for note in found.notes if "by direct I/O and so past the page cache" in note]
        assert not [note for note in found.notes if "Double buffering" in note]


@contextmanager
def far_away(sandbox: Sandbox, delay_s: float) -> Iterator[str]:
    """Let the server be reached at an address of another network, where each way takes a while; yield the address."""
    name, here, there = f"pgdyno-{uuid4().hex[:6]}", "10.201.77.1", "10.201.77.2"
    link, other_end = f"pd{name[-6:]}a", f"pd{name[-6:]}b"
    ip("netns", "add", name)
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", other_end, "netns", name)
        ip("address", "add", f"{here}/30", "dev", link)
        ip("link", "set", link, "up")
        ip("-n", name, "address", "add", f"{there}/30", "dev", other_end)
        ip("-n", name, "link", "set", other_end, "up")
        given = sandbox.target().postgres.environment("postgres")
        socket = f"{given['PGHOST']}/.s.PGSQL.{given.get('PGPORT', '5432')}"
        argv = ["ip", "netns", "exec", name, sys.executable, "-c", DELAY, there, socket, str(delay_s)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as relay:
            try:
                assert relay.stdout is not None
                assert relay.stdout.readline() == "ready\n"
                yield there
            finally:
                relay.terminate()
    finally:
        ip("netns", "delete", name)


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"ip {' '.join(words)}: {done.stderr.strip()}")


SOCKET = (
    "unit/probes/test_bottleneck_judge_network.py"
    "::test_the_same_time_outside_the_server_without_a_network_is_the_clients"
)


@pytest.mark.requirement("R-MON-14")
@pytest.mark.parametrize("far", [True, pytest.param(False, marks=pytest.mark.night(SOCKET))])
def test_round_trips_that_take_long_are_the_network(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path, *, far: bool
) -> None:
    sandbox = make_sandbox("far" if far else "near")
    sandbox.start()
    with far_away(sandbox, 0.004) as address, real_laboratory(sandbox, tmp_path) as lab:
        if far:
            user = sandbox.target().postgres.environment("postgres")["PGUSER"]
            lab.target = replace(lab.target, postgres=Postgres(f"host={address} user={user} dbname=postgres"))
        trial = lab.run("SELECT n FROM item WHERE id = 7;\n", PLAN)
        found = lab.evidence(trial).bottleneck
    if not far:
        assert found.resource is not Resource.NETWORK
        assert "No network lies between" in of(found, Resource.NETWORK).sentence
        return
    assert trial.outcome is not None
    assert trial.outcome.counters["over_network"] == 1
    assert trial.outcome.counters["round_trip_ms"] >= 8
    assert found.resource is Resource.NETWORK
    assert "A round trip to the server took" in found.evidence[0]
