"""Rules on the process scheduler: four conditions, topology, the interface of each kernel, tips of other machines."""

from __future__ import annotations

import pytest

from advisor_case import make_host
from kernel_case import busy, says, with_kernel, with_processor
from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Depth, ProofState, Severity

SYSCTL, DEBUGFS = "/proc/sys/kernel/sched_migration_cost_ns", "/sys/kernel/debug/sched/migration_cost_ns"
COST = "kernel.sched_migration_cost_ns"


def lpar(kernel: tuple[int, int] = (4, 18), cost: object = 500_000, interface: object = SYSCTL, **parts: object):
    host = make_host(architecture="s390x", kernel=kernel, layer="LPAR", cpus=4, **parts)
    return with_kernel(host, migration_cost_ns=cost, migration_interface=interface)


@pytest.mark.requirement("R-SCH-01", "R-SCH-04", "R-SCH-05", "R-SCH-06", "R-SCH-07", "CON-15")
def test_a_4_18_kernel_is_offered_50000_by_sysctl_as_something_to_test():
    finding = says("migration-cost", lpar(), **busy())
    (change,) = finding.changes
    assert (change.knob, change.value, change.current, change.device) == (COST, "50000", "500000", "")
    assert finding.state is ProofState.NEEDS_TEST
    assert finding.depth is Depth.DEEP
    assert {effect.low for effect in finding.effects} == {0.14, 0.09}
    assert any("large number of different workloads" in effect.text for effect in finding.effects)
    assert "%usr" in finding.verify
    assert "The higher it is, the longer" in finding.mechanism
    assert any("Sweep a series" in text for text in finding.alternatives)


@pytest.mark.requirement("R-SCH-08", "R-SCH-09", "CON-15")
def test_from_5_13_the_file_of_debugfs_is_named_and_no_sysctl():
    finding = says("migration-cost", lpar((6, 1), interface=DEBUGFS), **busy())
    assert finding.changes[0].device == DEBUGFS
    assert "systemd unit" in finding.persist
    assert DEBUGFS in next(one.decided for one in finding.resolutions if one.id == "CON-15")


@pytest.mark.requirement("R-SCH-08", "R-INV-19")
@pytest.mark.parametrize(
    ("kernel", "reason", "answer"),
    [
        ((6, 18), "EPERM, debugfs", Answer.UNKNOWN),
        ((6, 18), "debugfs is closed by lockdown", Answer.UNKNOWN),
        ((6, 18), "the capture has no sys/kernel/debug/sched/migration_cost_ns", Answer.UNKNOWN),
        ((6, 18), "the kernel does not have it", Answer.NOT_APPLICABLE),
        ((4, 18), "the kernel does not have it", Answer.NOT_APPLICABLE),
    ],
)
def test_without_an_interface_nothing_is_offered_and_the_reason_is_told(kernel, reason, answer):
    finding = says("migration-cost", lpar(kernel, Unknown(reason), Unknown(reason)), **busy())
    assert (finding.answer, finding.changes) == (answer, ())
    assert reason in finding.reason


@pytest.mark.requirement("R-SCH-08")
@pytest.mark.parametrize("interface", [SYSCTL, DEBUGFS])
@pytest.mark.parametrize("kernel", [(5, 13), (5, 14), (6, 1), (6, 6), (6, 18)])
def test_no_change_from_5_13_on_could_be_taken_for_a_sysctl(kernel, interface):
    finding = says("migration-cost", lpar(kernel, interface=interface), **busy())
    assert all(change.device == DEBUGFS for change in finding.changes)


READING = {"IO:DataFileRead": 32.0, "CPU": 32.0}
SLOW = DeviceActivity("dasda", queue=300.0, read_await_ms=0.5, write_await_ms=11.0, util_pct=100.0)


@pytest.mark.requirement("R-SCH-02")
@pytest.mark.parametrize(
    ("broken", "word"),
    [
        ({"active_mean": 4.0}, "more users than processors"),
        ({"idle_pct": 2.0}, "no idle time"),
        ({"iowait_pct": 35.0, "waits": READING}, "disks are the bottleneck: 50 % of the sessions' time"),
        ({"devices": (SLOW,), "waits": READING}, "dasda"),
        ({"waits": {"IO:WalSync": 40.0, "CPU": 24.0}}, "flushing the WAL is the bottleneck"),
        ({"network_utilization": 0.95}, "network is the bottleneck"),
        ({"lock_waiters_mean": 30.0}, "locking"),
    ],
)
def test_each_condition_that_does_not_hold_silences_the_rule(broken, word):
    finding = says("migration-cost", lpar(), **busy(**broken))
    assert finding.answer is Answer.NOT_APPLICABLE
    assert word in finding.reason


@pytest.mark.requirement("R-SCH-02", "R-STO-10")
@pytest.mark.parametrize("seen", [{"devices": (SLOW,)}, {"iowait_pct": 15.0}, {"waits": READING}])
def test_the_judge_of_bottlenecks_decides_and_a_busy_device_alone_is_none(seen):
    """Only where sessions wait for a device that is busy is it what holds them back."""
    device = DeviceActivity("vda", queue=0.2, read_await_ms=0.1, write_await_ms=0.1, util_pct=3.0)
    finding = says("migration-cost", lpar(), **busy(**{"devices": (device,), **seen}))
    assert finding.answer is Answer.FINDING, finding.reason
    assert any("No bottleneck of disks or network" in text for text in finding.evidence)


@pytest.mark.requirement("R-SCH-02")
def test_unknown_conditions_are_named_and_a_broken_one_still_decides():
    unknown = {**busy(lock_waiters_mean=Unknown("no samples")), "bottleneck": Unknown("speed not shown")}
    finding = says("migration-cost", lpar(), **unknown)
    assert finding.answer is Answer.UNKNOWN
    assert "wait for locks" in finding.reason
    assert "what limited the load (speed not shown)" in finding.reason
    broken = busy(lock_waiters_mean=Unknown("no samples"), idle_pct=0.0)
    assert says("migration-cost", lpar(), **broken).answer is Answer.NOT_APPLICABLE
    assert says("migration-cost", lpar()).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-SCH-03", "CON-14", "R-ARC-05")
def test_scattered_or_large_images_are_told_to_test_first():
    scattered = says("migration-cost", with_processor(lpar(), scattered=True), **busy())
    assert scattered.severity is Severity.NOTE
    assert any("test first, not recommended" in text for text in scattered.doubts)
    large = says("migration-cost", with_processor(lpar(), cpus=48), **busy())
    assert any("large" in text for text in large.doubts)
    assert "only when it is positive" in next(one.decided for one in large.resolutions if one.id == "CON-14")
    unknown = says("migration-cost", with_processor(lpar(), scattered=Unknown("no topology")), **busy())
    assert unknown.answer is Answer.UNKNOWN


def test_a_lowered_value_is_in_order():
    assert says("migration-cost", lpar(cost=50_000), **busy()).answer is Answer.OK


@pytest.mark.requirement("R-SCH-10", "R-ADV-13", "CON-13")
def test_values_of_the_x86_list_are_warned_about_on_s390x():
    host = lpar(cost=5_000_000, sysctls={"kernel.sched_autogroup_enabled": "0"})
    finding = says("foreign-scheduler-tips", host)
    assert finding.severity is Severity.WARNING
    assert {change.knob: change.value for change in finding.changes} == {
        COST: "500000",
        "kernel.sched_autogroup_enabled": "1",
    }
    assert any("-2 %" in effect.text for effect in finding.effects)
    assert says("migration-cost", host, **busy()).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-ADV-13", "CON-13")
def test_on_x86_the_list_is_a_note_and_in_files_it_is_found_too():
    x86 = with_kernel(make_host(kernel=(4, 18)), migration_cost_ns=5_000_000, migration_interface=SYSCTL)
    assert says("foreign-scheduler-tips", x86).severity is Severity.NOTE
    files = {"/etc/sysctl.d/10-pg.conf": {COST: "5000000"}}
    finding = says("foreign-scheduler-tips", with_kernel(lpar(), sysctl_files=files))
    assert finding.severity is Severity.WARNING
    assert "/etc/sysctl.d/10-pg.conf" in finding.evidence[0]
    assert says("foreign-scheduler-tips", lpar()).answer is Answer.OK


def test_a_disabled_autogroup_alone_is_no_finding():
    host = lpar(sysctls={"kernel.sched_autogroup_enabled": "0"})
    finding = says("foreign-scheduler-tips", host)
    assert finding.answer is Answer.OK
    assert "nobody measured alone" in finding.reason
    blind = with_kernel(host, migration_cost_ns=Unknown("EPERM, debugfs"))
    assert says("foreign-scheduler-tips", blind).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-SCH-11", "R-VER-09")
def test_eevdf_is_remarked_from_6_6_on():
    finding = says("eevdf", make_host(kernel=(6, 18)))
    assert finding.severity is Severity.NOTE
    assert "wakeup_granularity_ns are gone" in finding.evidence[0]
    assert "base_slice_ns" in finding.evidence[0]
    assert "CFS" in finding.why
    assert says("eevdf", make_host(kernel=(6, 1))).answer is Answer.NOT_APPLICABLE
    modern = says("migration-cost", lpar((6, 18), interface=DEBUGFS), **busy())
    assert any("EEVDF" in text for text in modern.doubts)
