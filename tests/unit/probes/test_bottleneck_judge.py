"""What held a run back: synthetic runs with a known answer, and what must never decide."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.bottleneck import Resource
from pgdyno.probes.bottleneck_judge import judge_bottleneck
from pgdyno.probes.bottleneck_notes import physical_share
from pgdyno.probes.run_figures import CpuFigures, DeviceFigures, InterfaceFigures, LoadShape, RunFigures

IDLE = CpuFigures(8, usr=5, sys=3, irq=0, iowait=0, steal=0, run_queue=1, server_share=0.5, driver_share=0.3)
FULL = replace(IDLE, usr=70, sys=25, run_queue=14)
DEVICE = DeviceFigures("vda", read_kb_s=10, write_kb_s=10, queue=0.1, util_pct=3, r_await_ms=0.2, w_await_ms=0.4)
LOAD = LoadShape(clients=10, jobs=2, throughput=1000, driver_cpu_s=2, load_s=60)
BUSY = RunFigures(LOAD, 60, moments=60, sessions=10, active=9, waits={"CPU:CPU": 9.0}, cpu=IDLE, devices=(DEVICE,))


def verdict(**changes):
    return judge_bottleneck(replace(BUSY, **changes))


CASES = {
    Resource.CPU: {"cpu": FULL},
    Resource.DISK: {
        "waits": {"IO:DataFileRead": 7.0, "CPU:CPU": 2.0},
        "devices": (replace(DEVICE, queue=6.5, r_await_ms=9.0, util_pct=97),),
    },
    Resource.WAL_FLUSH: {"waits": {"IO:WalSync": 1.0, "LWLock:WALWrite": 6.0, "CPU:CPU": 2.0}},
    Resource.LOCKS: {"waits": {"Lock:transactionid": 6.0, "CPU:CPU": 3.0}},
    Resource.NETWORK: {"interfaces": (InterfaceFigures("eth0", 1000, 110_000, speed_mbit=1000.0),)},
    Resource.CLIENT: {"active": 2.0, "waits": {"CPU:CPU": 2.0}},
    Resource.NONE: {"active": 6.0, "waits": {"CPU:CPU": 6.0}},
}


@pytest.mark.requirement("R-MON-14")
@pytest.mark.parametrize("expected", CASES, ids=str)
def test_each_resource_is_named_with_this_runs_figures(expected):
    found = verdict(**CASES[expected])
    assert found.resource is expected
    assert found.evidence
    assert any(character.isdigit() for character in found.evidence[0]) or expected is Resource.NONE
    assert found.second is not expected


@pytest.mark.requirement("R-MON-14")
def test_the_wait_that_weighs_most_and_the_threshold_are_in_the_evidence():
    found = verdict(**CASES[Resource.WAL_FLUSH])
    assert "70 % of the sessions' time" in found.evidence[0]
    assert "LWLock:WALWrite" in found.evidence[0]
    assert "Threshold 30 %" in found.evidence[0]
    assert found.second is Resource.CPU


@pytest.mark.requirement("R-MON-14")
def test_the_second_candidate_is_what_would_be_next():
    found = verdict(waits={"Lock:tuple": 5.0, "IO:WalSync": 3.5, "CPU:CPU": 0.5})
    assert (found.resource, found.second) == (Resource.LOCKS, Resource.WAL_FLUSH)


@pytest.mark.requirement("R-MON-14", "R-STO-10")
def test_a_device_that_is_always_busy_is_no_bottleneck_by_that():
    found = verdict(devices=(replace(DEVICE, util_pct=100.0, queue=0.9),))
    assert found.resource is Resource.NONE
    (note,) = [note for note in found.notes if "%util" in note]
    assert "vda 100 %" in note
    assert "not used for the verdict" in note


@pytest.mark.requirement("R-MON-14", "R-MON-03")
def test_waits_for_io_that_no_device_served_are_copies_from_the_page_cache():
    found = verdict(waits={"IO:DataFileRead": 5.0, "CPU:CPU": 4.0})
    assert found.resource is not Resource.DISK
    (disk,) = [one for one in found.candidates if one.resource is Resource.DISK]
    assert "copies from the page cache" in disk.sentence


@pytest.mark.requirement("R-MON-14")
def test_a_rate_that_was_reached_was_limited_by_nothing_even_on_a_busy_machine():
    found = verdict(load=replace(LOAD, rate=1000.0, throughput=990.0), cpu=FULL)
    assert found.resource is Resource.NONE
    assert "offered 1000" in found.evidence[0]
    missed = verdict(load=replace(LOAD, rate=2000.0, throughput=990.0), cpu=FULL)
    assert missed.resource is Resource.CPU


@pytest.mark.requirement("R-MON-14")
def test_time_outside_the_server_belongs_to_full_cpus_before_it_belongs_to_the_client():
    found = verdict(active=2.0, waits={"CPU:CPU": 2.0}, cpu=FULL)
    assert (found.resource, found.second) == (Resource.CPU, None), "a driver at 2 % of a core is not next"


@pytest.mark.requirement("R-MON-14")
def test_a_driver_thread_that_is_busy_is_named():
    found = verdict(load=replace(LOAD, driver_cpu_s=100.0))
    assert found.resource is Resource.CLIENT
    assert "83 % of a core" in found.evidence[0]


@pytest.mark.requirement("R-MON-14")
def test_a_session_that_runs_all_the_time_on_free_cpus_is_bound_by_one_core_and_that_is_said():
    alone = {"load": replace(LOAD, clients=1), "active": 1.0}
    found = verdict(**alone, waits={"CPU:CPU": 0.9})
    assert found.resource is Resource.NONE
    assert "90 % of the time its one session ran, on CPUs that were 8 % busy: a faster core" in found.evidence[0]
    assert "faster core" not in verdict(**alone, waits={"Timeout:PgSleep": 0.9}).evidence[0]
    assert "its 10 sessions" in verdict(waits={"CPU:CPU": 6.0}).evidence[0]


@pytest.mark.requirement("R-MON-14")
def test_steal_is_time_that_is_not_there():
    found = verdict(cpu=replace(IDLE, usr=40, sys=10, steal=40))
    assert found.resource is Resource.CPU
    assert "40 stolen" in found.evidence[0]


@pytest.mark.requirement("R-MON-14")
def test_nothing_seen_is_unknown_and_the_machine_alone_is_judged_with_a_note():
    blind = judge_bottleneck(RunFigures(LOAD, 60))
    assert blind.resource is Resource.UNKNOWN
    assert "neither" in blind.evidence[0]
    host_only = judge_bottleneck(RunFigures(LOAD, 60, cpu=FULL))
    assert host_only.resource is Resource.CPU
    assert any("not sampled" in note for note in host_only.notes)


@pytest.mark.requirement("R-MON-14")
def test_few_moments_and_a_machine_used_by_others_are_told():
    found = verdict(seconds=8, moments=3, cpu=replace(FULL, foreign_share=0.6))
    assert any("3 moments" in note for note in found.notes)
    assert any("60 %" in note and "quiet machine" in note for note in found.notes)


@pytest.mark.requirement("R-MON-14")
@pytest.mark.parametrize(("busy", "told"), [(1.8, False), (20.0, True)])
def test_the_background_of_an_idle_machine_is_not_called_other_peoples_work(busy, told):
    found = verdict(cpu=replace(IDLE, usr=busy, sys=0, foreign_share=0.9))  # of 8 CPUs: 0.13 and 1.4 cores
    assert any("quiet machine" in note for note in found.notes) is told


CACHED = {
    "blocks_read": 60_000.0, "blocks_hit": 40_000.0, "disk_read_bytes": 4_915_200.0, "shared_buffers_bytes": 2.0**27
}  # fmt: skip


@pytest.mark.requirement("R-MON-03")
def test_reads_are_split_into_physical_ones_and_those_of_the_page_cache():
    (reads,) = [note for note in verdict(**CACHED).notes if note.startswith("Logical reads")]
    assert "1,667 blocks a second, 40.0 % of them in shared_buffers" in reads
    assert "1.0 % of that; the other 99.0 % came from the page cache" in reads
    (cold,) = [
        note
        for note in verdict(**{**CACHED, "disk_read_bytes": 60_000.0 * 8192}).notes
        if note.startswith("Logical reads")
    ]
    assert "100.0 % of that" in cold


@pytest.mark.requirement("R-MON-03")
def test_double_buffering_is_told_with_the_runs_own_numbers_and_only_where_it_is():
    (told,) = [note for note in verdict(**CACHED).notes if note.startswith("Double buffering")]
    assert "464 MB" in told
    assert "shared_buffers of 128 MB" in told
    for change in ({"disk_read_bytes": 60_000.0 * 8192}, {"blocks_read": 100.0}, {"disk_read_bytes": None}):
        assert not [note for note in verdict(**{**CACHED, **change}).notes if note.startswith("Double buffering")]


@pytest.mark.requirement("R-MON-03")
@pytest.mark.parametrize("elsewhere", ["own_devices", "own_host"])
def test_what_other_devices_read_says_nothing_of_data_that_lie_elsewhere(elsewhere):
    reading = {"waits": {"IO:DataFileRead": 5.0, "CPU:CPU": 4.0}, **CACHED}
    found = verdict(**reading, **{elsewhere: False})
    assert found.resource is Resource.UNKNOWN
    assert "no device that holds them was sampled" in found.evidence[0]
    assert any("how many of them the devices read is unknown" in note for note in found.notes)
    assert not [note for note in found.notes if "page cache" in note or "Double buffering" in note]
    assert verdict(**reading).resource is Resource.NONE


@pytest.mark.requirement("R-MON-03")
def test_direct_reads_are_not_copies_from_the_page_cache():
    notes = verdict(**CACHED, direct_io=True).notes
    assert any("by direct I/O and so past the page cache" in note for note in notes)
    assert not [note for note in notes if "Double buffering" in note]


@pytest.mark.parametrize(("ms", "text"), [(0.021, "0.021 ms"), (4.26, "4.26 ms"), (123.4, "123 ms")])
def test_a_time_of_a_device_keeps_its_digits(ms, text):
    (wal,) = [one for one in verdict(devices=(replace(DEVICE, f_await_ms=ms),)).candidates if "WAL" in one.sentence]
    assert f"a flush of vda took {text}" in wal.sentence


@pytest.mark.requirement("R-MON-02")
def test_system_time_is_split_from_user_time_and_tied_to_cached_reads():
    reading = verdict(**CACHED, cpu=replace(IDLE, usr=30, sys=30)).notes
    assert any("30 % user and 30 % system" in note and "copies from the page cache" in note for note in reading)
    hitting = verdict(cpu=replace(IDLE, usr=30, sys=30), blocks_read=0.0, blocks_hit=1e6, disk_read_bytes=0.0).notes
    assert not any("copies from the page cache" in note for note in hitting)


@given(blocks=st.floats(0, 1e12), block=st.sampled_from([4096, 8192, 32768]), device=st.floats(0, 1e15))
def test_the_physical_share_is_a_share(blocks, block, device):
    share = physical_share(blocks, block, device)
    assert share is None if blocks == 0 else 0 <= share <= 1


WAITS = st.dictionaries(
    st.sampled_from(
        ["CPU:CPU", "Lock:tuple", "IO:WalSync", "IO:DataFileRead", "Client:ClientWrite", "Timeout:PgSleep"]
    ),
    st.floats(0, 20),
)


@given(
    waits=WAITS,
    active=st.floats(0, 20),
    usr=st.floats(0, 100),
    iowait=st.floats(0, 100),
    util=st.floats(0, 100),
    queue=st.floats(0, 50),
    rate=st.none() | st.floats(0.1, 1e4),
)
def test_every_run_has_a_verdict_and_utilization_never_changes_it(waits, active, usr, iowait, util, queue, rate):
    run = replace(
        BUSY,
        load=replace(LOAD, rate=rate),
        waits=waits,
        active=active,
        cpu=replace(IDLE, usr=usr, iowait=iowait),
        devices=(replace(DEVICE, queue=queue, util_pct=util),),
    )
    found = judge_bottleneck(run)
    assert found.resource is not Resource.UNKNOWN
    assert found.second != found.resource
    assert all(0 <= one.share <= 1 for one in found.candidates)
    other = judge_bottleneck(replace(run, devices=(replace(DEVICE, queue=queue, util_pct=100 - util),)))
    assert (other.resource, other.second) == (found.resource, found.second)
