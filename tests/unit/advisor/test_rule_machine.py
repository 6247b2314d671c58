"""Rules on what the machine is: architecture, topology, sharing, page size, limits of a container, unread facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, make_host, make_server
from kernel_case import MODERN_IPC, WINDOW, buffers, says, with_kernel, with_memory, with_processor
from pgdyno.advisor.engine import advise
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import Evidence, HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Severity
from pgdyno.model.inventory import HostInventory, Inventory


@pytest.mark.requirement("R-ARC-04", "R-ADV-13")
def test_an_unknown_architecture_gets_a_remark_and_generic_rules():
    host = make_host(architecture="aarch64")
    finding = says("architecture", host)
    assert finding.severity is Severity.NOTE
    assert "no source covers aarch64" in finding.evidence[0].lower()
    assert says("dirty-bytes", host).answer is Answer.UNKNOWN  # no sysctl was read; not an error
    assert says("swap-area", host).answer is Answer.FINDING
    assert says("polarization", host).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-ARC-01", "R-ARC-02", "R-ARC-03", "R-INV-05")
@pytest.mark.parametrize(
    ("architecture", "layer", "word"),
    [
        ("s390x", "LPAR", "1 MiB"),
        ("ppc64le", "PowerVM", "64 KiB"),
        ("x86_64", "KVM", "4 KiB"),
        ("s390x", "z/VM", "edat"),
    ],
)
def test_a_known_architecture_is_told_with_its_layer(architecture, layer, word):
    finding = says("architecture", make_host(architecture=architecture, layer=layer))
    assert finding.answer is Answer.OK
    assert word in finding.reason
    assert f"below is {layer}" in finding.reason


@pytest.mark.requirement("R-INV-04", "R-ARC-05", "R-ARC-01")
def test_scattered_processors_are_told_with_what_they_span():
    host = with_processor(
        make_host(architecture="s390x"), scattered=True, drawers=2, books=4, sockets=8, last_level_caches=8
    )
    finding = says("scattered-processors", host)
    assert "2 drawers" in finding.current
    assert says("scattered-processors", make_host()).answer is Answer.OK
    unknown = with_processor(scattered=Unknown("no topology in the guest"))
    assert says("scattered-processors", unknown).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-ARC-06", "R-ARC-01")
def test_entitlement_is_counted_under_vertical_polarization():
    entitlement = {"high": 6, "medium": 2, "low": 7}
    host = with_processor(make_host(architecture="s390x"), polarization="vertical", entitlement=entitlement)
    finding = says("polarization", host)
    assert "6 high, 2 medium, 7 low" in finding.current
    assert "9 are not backed" in finding.evidence[0]
    horizontal = with_processor(make_host(architecture="s390x"), polarization="horizontal")
    assert says("polarization", horizontal).answer is Answer.OK


@pytest.mark.requirement("R-ARC-07")
def test_steal_time_and_shared_processors_are_told():
    stolen = says("shared-processors", make_host(), host=HostActivity(WINDOW, steal_pct=12.0))
    assert stolen.severity is Severity.WARNING
    assert "12 %" in stolen.current
    assert says("shared-processors", with_processor(shared=True)).severity is Severity.NOTE
    assert says("shared-processors", make_host()).answer is Answer.OK
    unknown = with_processor(shared=Unknown("no /proc/sysinfo"))
    assert says("shared-processors", unknown).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-ARC-02", "R-IPC-02")
def test_power_reports_thp_smt_and_shmall_in_pages_of_64_kib():
    sysctls = {**MODERN_IPC, "kernel.shmall": "2000000"}
    host = make_host(architecture="ppc64le", page_size=65536, sysctls=sysctls)
    host = with_processor(with_memory(host, thp_enabled="always"), threads_per_core=8, max_threads=8)
    evidence = " ".join(says("page-size", host).evidence)
    assert "kernel.shmall = 2000000 counts pages of 64 KiB: 122 GiB" in evidence
    assert "[always]" in evidence
    assert "SMT: 8 of 8" in evidence
    assert "replaces 32 pages" in evidence
    modern = make_host(architecture="ppc64le", page_size=65536, sysctls=MODERN_IPC)
    assert "64 KiB: no limit at all." in " ".join(says("page-size", modern).evidence)
    assert says("page-size", make_host()).answer is Answer.OK


@pytest.mark.requirement("R-KRN-24")
def test_shares_are_taken_of_the_containers_limit():
    host = with_memory(make_host(ram_bytes=256 * GB), limit_bytes=14 * GB, limited_by="cgroup v2")
    finding = says("container-limits", with_processor(host, usable=2), buffers(4 * GB))
    assert "3.5 GiB" in finding.proposed
    assert "cgroup v2 allows 14 GiB of 256 GiB" in finding.evidence[0]
    assert "2 of 8 CPUs" in finding.evidence[1]
    assert says("container-limits", host, buffers(10 * GB)).severity is Severity.WARNING
    unlisted = with_processor(host, usable=Unknown("no CPU set"))
    assert says("container-limits", unlisted, buffers(4 * GB)).current == "limit 14 GiB"
    assert says("container-limits", make_host()).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-INV-19")
def test_unread_facts_are_listed_with_their_reasons():
    host = with_kernel(migration_cost_ns=Unknown("EPERM, debugfs"))
    inventory = Inventory(host, make_server(), missing={"commands/lsdasd.txt": "no such program"})
    findings = {one.rule: one for one in advise(inventory, Evidence(), shipped_rules())}
    assert findings["unreadable-facts"].evidence == (
        "migration_cost: unknown (EPERM, debugfs).",
        "commands/lsdasd.txt: unknown (no such program).",
    )
    one = Inventory(host, make_server())
    (single,) = (each for each in advise(one, Evidence(), shipped_rules()) if each.rule == "unreadable-facts")
    assert (single.current, findings["unreadable-facts"].current) == ("1 fact is unknown", "2 facts are unknown")
    known = with_kernel(migration_cost_ns=500_000)
    assert says("unreadable-facts", known).answer is Answer.OK


def test_nothing_known_makes_no_rule_fail():
    for server in (Unknown("no connection"), make_server(13), replace(make_server(18), settings={})):
        for one in advise(Inventory(HostInventory(), server), Evidence(), shipped_rules()):
            assert not [change for change in one.changes if change.kind == "linux"], one.rule
