"""What the samples of a run say beside its bottleneck: locks, failures, scope of counters."""

import pytest

from pgdyno.linux.host import container_of
from pgdyno.model.samples import Event
from pgdyno.probes.counter_scope import devices_hold, scope_notes
from pgdyno.probes.happenings import server_events
from pgdyno.probes.lock_figures import lock_figures
from pgdyno.probes.run_figures import LoadShape, read_figures
from pgdyno.probes.server_failures import count_failures, failure_warning, without_our_own
from pgdyno.probes.views import ViewsReading
from study_recording import sample_row


def sessions(t, active=2):
    return sample_row("sessions", t, total=4, active=active, waiting=0, idle=0, idle_in_transaction=0)


def lock(t, mode, granted, waiting=0, locktype="relation"):
    return sample_row("locks", t, mode=mode, locktype=locktype, granted=granted, waiting=waiting)


@pytest.mark.requirement("R-MON-04")
def test_locks_are_means_and_maxima_over_all_seconds_and_the_three_modes_are_always_there():
    rows = [sessions(1), sessions(2), sessions(3), sessions(4)]
    rows += [lock(1, "RowExclusiveLock", 8), lock(2, "RowExclusiveLock", 4), lock(9, "RowExclusiveLock", 999)]
    rows += [
        lock(2, "ShareLock", 0, waiting=3, locktype="transactionid"),
        lock(2, "RowExclusiveLock", 2, locktype="tuple"),
    ]
    found = {one.mode: one for one in lock_figures(rows, 0.0, 4.0)}
    assert list(found)[:3] == ["RowExclusiveLock", "AccessShareLock", "ExclusiveLock"]
    assert (found["RowExclusiveLock"].mean, found["RowExclusiveLock"].most) == (14 / 4, 8)
    assert (found["ShareLock"].waiting_mean, found["ShareLock"].waiting_most) == (0.75, 3)
    assert found["ExclusiveLock"].mean == 0
    assert lock_figures([lock(1, "ShareLock", 1)], 0.0, 4.0) == ()


@pytest.mark.requirement("R-MON-15")
def test_failures_are_counted_and_none_is_a_result():
    healthy = count_failures([Event(1.0, "checkpoint", "x")])
    assert set(healthy.values()) == {0.0}
    assert "failures_crash" in healthy
    assert failure_warning(healthy) is None
    ill = count_failures([Event(1.0, "crash", "x"), Event(2.0, "deadlock", "x"), Event(3.0, "deadlock", "x")])
    assert ill["failures_deadlock"] == 2
    assert failure_warning(ill) == "the server failed during the run: 1 crash"
    beside = failure_warning(count_failures([Event(1.0, "oom_kill", "x")]))
    assert beside == "the host ran out of memory during the run: 1 out-of-memory kill on the host"
    assert failure_warning(count_failures([Event(1.0, "deadlock", "x")])) is None


def test_sessions_that_a_guard_ended_are_no_failure_of_the_server() -> None:
    fatal, tripped, crash = Event(4.0, "session_fatal", "x"), Event(3.0, "guard", "temp"), Event(5.0, "crash", "x")
    counts = count_failures(without_our_own([fatal, tripped, crash]))
    assert (counts["failures_session_fatal"], counts["failures_crash"]) == (0, 1)
    before = Event(2.0, "session_fatal", "x")
    assert without_our_own([before, tripped, fatal]) == [before, tripped]
    assert without_our_own([before, fatal]) == [before, fatal]


def reading(t, *, started=10.0, checkpointer=11.0, **database):
    server = [{"started_at": started, "loaded_at": started, "checkpointer_at": checkpointer}]
    return ViewsReading(t, {"server": server, "database": [database]}, {})


@pytest.mark.requirement("R-MON-15")
def test_a_new_checkpointer_of_an_old_server_is_a_crash_and_of_a_new_one_a_restart():
    def kinds(after):
        return [event.kind for event in server_events(reading(1.0), after)]

    assert kinds(reading(2.0)) == []
    assert kinds(reading(2.0, checkpointer=12.0)) == ["crash"]
    assert kinds(reading(2.0, started=12.0, checkpointer=12.5)) == ["restart"]
    assert kinds(reading(2.0, checkpointer=None)) == []


@pytest.mark.requirement("R-MON-15")
def test_sessions_that_were_ended_are_events():
    before = reading(1.0, sessions_killed=3, sessions_fatal=0)
    after = reading(2.0, sessions_killed=5, sessions_fatal=1)
    found = server_events(before, after)
    assert [event.kind for event in found] == ["session_killed", "session_fatal"]
    assert "(2 times)" in found[0].text


@pytest.mark.requirement("R-MON-16")
def test_a_container_is_told_what_is_host_wide():
    (note,) = scope_notes("Docker", "none", is_limited=True)
    assert note.index("Host-wide") < note.index("memory") < note.index("Of this server alone") < note.index("locks")
    (limited,) = scope_notes(None, "none", is_limited=True)
    assert "cgroup" in limited
    assert scope_notes(None, "none", is_limited=False) == ()


@pytest.mark.requirement("R-MON-16")
@pytest.mark.parametrize(
    ("named", "marks", "cgroup", "expected"),
    [
        ("lxc\n", (), None, "lxc"),
        (None, ("/.dockerenv",), "0::/\n", "Docker"),
        (None, ("/run/.containerenv",), None, "Podman"),
        (None, (), "0::/kubepods/burstable/pod1\n", "Kubernetes"),
        (None, (), "0::/init.scope\n", None),
        ("", (), None, None),
    ],
)
def test_containers_are_recognised_by_their_signs(named, marks, cgroup, expected):
    assert container_of(named, frozenset(marks), cgroup) == expected


@pytest.mark.requirement("R-MON-08", "R-MON-16")
def test_the_monitor_data_of_zvm_are_said_to_be_missing():
    (note,) = scope_notes(None, "z/VM", is_limited=False)
    assert "monitor data" in note
    assert "missing" in note
    assert not any("monitor" in text for text in scope_notes(None, "LPAR", is_limited=False))
    assert "guest" in scope_notes(None, "virtual machine (KVM)", is_limited=False)[0]


@pytest.mark.requirement("R-MON-03")
@pytest.mark.parametrize(
    ("filesystem", "held"),
    [("ext4", True), ("xfs", True), ("zfs", True), ("tmpfs", True), ({"unknown": "not ours to enter"}, True),
     ("nfs4", False), ("cifs", False), ("9p", False), ("virtiofs", False), ("fuse.sshfs", False)],
)  # fmt: skip
def test_a_file_system_of_a_network_lies_on_no_device_of_this_machine(filesystem, held):
    assert devices_hold(filesystem, own_host=True) is held
    assert not devices_hold(filesystem, own_host=False)


@pytest.mark.requirement("R-MON-02", "R-MON-03", "R-MON-14")
def test_figures_are_means_over_the_window_only():
    rows = [
        sample_row("cpu", t, interval_s=1.0, cpus=4, usr_pct=usr, sys_pct=10, irq_pct=0, iowait_pct=5, steal_pct=0,
                   idle_pct=50, run_queue=3, server_cpu_s=1.0, driver_cpu_s=0.2, foreign_cpu_pct=20.0)
        for t, usr in ((1.0, 90), (2.0, 20), (3.0, 40))
    ]  # fmt: skip
    rows += [sessions(2.0, active=3), sessions(3.0, active=5)]
    rows += [sample_row("waits", 3.0, wait_event_type="Lock", wait_event="tuple", sessions=4)]
    rows += [
        sample_row("disk", 2.0, device="vda", interval_s=1.0, r_per_s=10, r_await_ms=1.0, aqu_sz=2.0, util_pct=80),
        sample_row("disk", 3.0, device="vda", interval_s=1.0, r_per_s=30, r_await_ms=2.0, aqu_sz=4.0, util_pct=90),
        sample_row("net", 3.0, interface="eth0", interval_s=1.0, rx_kb_per_s=1000.0, tx_kb_per_s=61_035.15625),
    ]
    found = read_figures(
        rows, LoadShape(8, 2), 1.0, 3.0, {"blks_read": 10.0, "disk_read_bytes": 81920.0}, speeds={"eth0": 1000.0}
    )
    assert (found.cpu.usr, found.cpu.sys, found.cpu.iowait) == (30, 10, 5)
    assert found.cpu.server_share == pytest.approx(2.0 / (0.4 * 4 * 2))
    assert (found.active, found.moments, found.waits) == (4, 2, {"Lock:tuple": 2.0})
    assert (found.devices[0].queue, found.devices[0].r_await_ms) == (3, 1.75)
    assert found.interfaces[0].share == pytest.approx(0.5)
    assert (found.blocks_read, found.blocks_hit) == (10.0, None)
