"""Rules on transparent huge pages, swap and kills."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, make_host
from kernel_case import WINDOW, buffers, says, with_memory
from pgdyno.model.evidence import HostActivity, LogEvidence
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Severity
from pgdyno.model.inventory import SwapArea, Virtualization


@pytest.mark.requirement("R-KRN-17", "R-ARC-02")
def test_always_is_a_finding_on_power_with_the_ways_to_persist():
    host = with_memory(make_host(architecture="ppc64le", page_size=65536), thp_enabled="always")
    finding = says("thp", host)
    assert [(change.knob, change.value, change.current) for change in finding.changes] == [
        ("transparent_hugepage.enabled", "never", "always")
    ]
    assert "[always]" in finding.evidence[0]
    assert "64 KiB" in finding.evidence[1]
    for way in ("kernel's command line", "tuned", "tmpfiles.d", "systemd unit"):
        assert way in finding.persist


@pytest.mark.requirement("R-KRN-17")
def test_madvise_is_a_note_without_a_change_and_never_is_in_order():
    note = says("thp", make_host())
    assert (note.severity, note.changes) == (Severity.NOTE, ())
    assert says("thp", with_memory(thp_enabled="never")).answer is Answer.OK
    assert says("thp", with_memory(huge_pages_supported=False)).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-KRN-20", "R-INV-07")
def test_no_swap_is_found_and_any_swap_is_enough():
    finding = says("swap-area", make_host())
    (change,) = finding.changes
    assert change.knob == "swap.area"
    assert 256 << 20 <= int(change.value) <= 4 * GB
    area = SwapArea("/dev/vda2", "partition", GB, 0, -2)
    assert says("swap-area", with_memory(swap=(area,))).answer is Answer.OK


@pytest.mark.requirement("R-KRN-20", "R-INV-07")
@pytest.mark.parametrize(
    ("container", "severity", "changes"),
    [("podman", Severity.NOTE, 0), (None, Severity.ADVICE, 1), (Unknown("no sign"), Severity.ADVICE, 1)],
)
def test_no_swap_is_told_in_a_container_too_where_nothing_of_it_can_be_set(container, severity, changes):
    finding = says("swap-area", replace(make_host(), virtualization=Virtualization("KVM", container)))
    assert (finding.answer, finding.severity, len(finding.changes)) == (Answer.FINDING, severity, changes)


@pytest.mark.requirement("R-KRN-21")
def test_heavy_swapping_is_a_warning_and_z_vm_is_named():
    host = HostActivity(WINDOW, swap_in_bytes_s=8e6, swap_out_bytes_s=4e6)
    finding = says("swapping", make_host(architecture="s390x", layer="z/VM"), host=host)
    assert finding.severity is Severity.WARNING
    assert any("z/VM" in text for text in finding.alternatives)
    quiet = HostActivity(WINDOW, swap_in_bytes_s=0.0, swap_out_bytes_s=0.0)
    assert says("swapping", make_host(), host=quiet).answer is Answer.OK
    assert says("swapping", make_host()).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-KRN-21")
def test_a_guest_of_z_vm_is_reminded_of_its_paging_space():
    assert says("zvm-paging", make_host(architecture="s390x", layer="z/VM")).severity is Severity.NOTE
    assert says("zvm-paging", make_host(architecture="s390x", layer="LPAR")).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-KRN-22", "R-KRN-23")
def test_kills_are_found_in_each_source_with_the_protections():
    log = LogEvidence(
        ("log",), 10, killed_by_9=2, quotes={"killed_by_9": "server process (PID 7) was terminated by signal 9: Killed"}
    )
    for evidence, severity in (
        ({"log": log}, Severity.CRITICAL),
        ({"kernel_oom_kills": 1}, Severity.WARNING),
        ({"host": HostActivity(WINDOW, oom_kills=1)}, Severity.WARNING),
        ({"log": LogEvidence(("log",), 10), "kernel_oom_kills": 1}, Severity.WARNING),
    ):
        finding = says("oom-kills", make_host(sysctls={"vm.overcommit_memory": "0"}), buffers(64 * GB), **evidence)
        assert finding.severity is severity
        text = " ".join(finding.alternatives)
        assert "vm.overcommit_memory is 0 now" in text
        assert "OOMScoreAdjust" in text
    assert any("terminated by signal 9" in text for text in says("oom-kills", make_host(), log=log).evidence)


@pytest.mark.requirement("R-KRN-22")
def test_kills_of_the_servers_own_group_count_and_a_log_that_was_not_read_is_not_quoted():
    finding = says("oom-kills", with_memory(group_oom_kills=3))
    assert finding.severity is Severity.WARNING
    assert "3 kills in the server's cgroup" in finding.evidence[0]
    assert not any("has no such line" in text for text in finding.evidence)
    read = says("oom-kills", with_memory(group_oom_kills=3), log=LogEvidence(("log",), 10))
    assert any("has no such line" in text for text in read.evidence)
    assert says("oom-kills", with_memory(group_oom_kills=0)).answer is Answer.OK


def test_kills_that_only_a_counter_tells_of_are_not_called_postgresqls():
    """A container, or the root of all groups, holds other programs as well."""
    counted = with_memory(group_oom_kills=3)
    assert says("oom-kills", counted).title == "Killed on this host: processes, whose is not known"
    others = says("oom-kills", counted, kernel_oom_kills=0)
    assert (others.severity, others.title) == (Severity.NOTE, says("oom-kills", counted).title)
    assert says("oom-kills", counted, kernel_oom_kills=1).title == "Killed on this host: processes of PostgreSQL"


@pytest.mark.parametrize("said", [{"started": "2026-01-02 03:04:05"}, {"changed": {"work_mem": "2026-01-02 03:04:05"}}])
def test_kills_in_the_group_from_before_the_settings_changed_close_the_finding(said):
    """The cgroup of a container lives on when its server is restarted, and so does the kernel's counter."""
    counted = with_memory(group_oom_kills=3)
    closed = says("oom-kills", counted, kernel_oom_kills=0, log=LogEvidence(("log",), 10, **said))
    assert closed.answer is Answer.OK
    assert "3 in the server's cgroup were before" in closed.reason
    again = LogEvidence(("log",), 10, killed_by_9=1, **said)
    assert says("oom-kills", counted, kernel_oom_kills=0, log=again).severity is Severity.CRITICAL


def test_no_kill_is_in_order_only_when_something_was_read():
    assert says("oom-kills", make_host(), kernel_oom_kills=0).answer is Answer.OK
    assert says("oom-kills", make_host()).answer is Answer.UNKNOWN
