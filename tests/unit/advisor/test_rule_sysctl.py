"""Rules on the files of sysctl and on what a kernel has."""

from __future__ import annotations

import pytest

from advisor_case import make_host, make_server
from kernel_case import says, with_kernel
from pgdyno.advisor.engine import advise
from pgdyno.advisor.kernel_table import changes_until, gone_from
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import Evidence
from pgdyno.model.finding import Answer, ChangeKind, Severity
from pgdyno.model.inventory import Inventory

OLD_NAMES = {"kernel.sched_migration_cost": "5000000", "kernel.sched_migration_cost_ns": "50000", "vm.swappiness": "1"}


@pytest.mark.requirement("R-VER-10")
def test_names_that_a_kernel_does_not_have_are_listed_and_none_is_written():
    host = with_kernel(
        make_host(kernel=(6, 18), sysctls={"vm.swappiness": "1"}), sysctl_files={"/etc/sysctl.d/1.conf": OLD_NAMES}
    )
    finding = says("sysctl-names", host)
    assert finding.current == "kernel.sched_migration_cost, kernel.sched_migration_cost_ns"
    assert any("/sys/kernel/debug/sched/migration_cost_ns" in text for text in finding.evidence)
    changed = {
        change.knob
        for one in advise(Inventory(host, make_server()), Evidence(), shipped_rules())
        for change in one.changes
        if change.kind is ChangeKind.LINUX and not change.device
    }
    assert not changed & {"kernel.sched_migration_cost", "kernel.sched_migration_cost_ns"}


@pytest.mark.requirement("R-VER-10", "R-VER-09")
def test_a_name_that_is_gone_is_so_from_its_kernel_on():
    assert gone_from("kernel.sched_migration_cost_ns", (5, 12)) is None
    assert gone_from("kernel.sched_migration_cost_ns", (5, 13)) is not None
    assert gone_from("vm.swappiness", (6, 18)) is None
    host = make_host(kernel=(4, 18), sysctls={"kernel.sched_migration_cost_ns": "500000"})
    files = {"/etc/sysctl.conf": {"kernel.sched_migration_cost_ns": "50000"}}
    assert says("sysctl-names", with_kernel(host, sysctl_files=files)).answer is Answer.OK


def test_an_unknown_name_counts_only_against_a_complete_listing():
    files = {"/etc/sysctl.d/1.conf": {"vm.no_such_name": "1"}}
    few = with_kernel(make_host(sysctls={"vm.swappiness": "1"}), sysctl_files=files)
    assert says("sysctl-names", few).answer is Answer.OK
    assert "were captured" in says("sysctl-names", few).reason
    many = with_kernel(make_host(sysctls={f"net.name{number}": "0" for number in range(900)}), sysctl_files=files)
    assert "vm.no_such_name" in says("sysctl-names", many).current


@pytest.mark.parametrize("files", [{}, {"/etc/sysctl.d/1.conf": {}}])
def test_files_that_set_nothing_are_not_called_in_order(files):
    host = with_kernel(make_host(sysctls={"vm.swappiness": "1"}), sysctl_files=files)
    assert says("sysctl-names", host).answer is Answer.NOT_APPLICABLE
    assert says("sysctl-files", host).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-KRN-09")
def test_lines_that_stand_in_sysctl_conf_alone_are_found():
    host = make_host(sysctls={"vm.swappiness": "1"})
    alone = with_kernel(host, sysctl_files={"/etc/sysctl.conf": {"vm.swappiness": "1"}})
    finding = says("sysctl-files", alone)
    assert finding.severity is Severity.NOTE
    assert "systemd from 207 on does not read it" in finding.evidence[0]
    linked = {"/etc/sysctl.conf": {"vm.swappiness": "1"}, "/etc/sysctl.d/99-sysctl.conf": {"vm.swappiness": "1"}}
    assert says("sysctl-files", with_kernel(host, sysctl_files=linked)).answer is Answer.OK


@pytest.mark.requirement("R-KRN-10")
def test_a_value_of_a_file_that_is_not_in_force_is_a_warning():
    host = make_host(sysctls={"vm.swappiness": "60", "kernel.sem": "32000\t1024000000\t500\t32000"})
    files = {"/etc/sysctl.d/1.conf": {"vm.swappiness": "1", "kernel.sem": "32000 1024000000 500 32000"}}
    finding = says("sysctl-files", with_kernel(host, sysctl_files=files))
    assert (finding.severity, finding.current) == (Severity.WARNING, "vm.swappiness")
    assert "60 is in force" in finding.evidence[0]


@pytest.mark.requirement("R-VER-09")
@pytest.mark.parametrize(
    ("kernel", "word", "holds"),
    [
        ((4, 18), "anticipatory", True),
        ((4, 18), "single-queue", False),
        ((5, 0), "single-queue", True),
        ((5, 12), "sysctls moved", False),
        ((5, 13), "sysctls moved", True),
        ((5, 13), "raw devices", False),
        ((5, 14), "raw devices", True),
        ((6, 5), "EEVDF", False),
        ((6, 6), "EEVDF", True),
        ((4, 18), "ext3", True),
    ],
)
def test_what_a_kernel_has(kernel, word, holds):
    assert any(word in change.text for change in changes_until(kernel)) is holds
    finding = says("kernel-generation", make_host(kernel=kernel))
    assert finding.answer is Answer.OK
    assert (word in finding.reason) is holds


def test_files_are_judged_for_what_a_database_depends_on():
    def judged(name):
        host = make_host(sysctls={name: "1"})
        return says("sysctl-files", with_kernel(host, sysctl_files={"/etc/sysctl.d/1.conf": {name: "2"}})).answer

    assert judged("vm.swappiness") is Answer.FINDING
    assert [judged("kernel.pid_max"), judged("fs.protected_links")] == [Answer.OK] * 2
