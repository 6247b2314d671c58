"""Rules on write-back: thresholds in bytes, what ratios come to, files with both variants, bursts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import GB, MB, finding_of, make_case, make_host
from kernel_case import RATIOS, WINDOW, says, with_kernel
from pgdyno.advisor.rules.writeback import is_burst
from pgdyno.model.evidence import HostActivity
from pgdyno.model.finding import Answer, Cost, RuleGroup, Severity


def host_with(ram_bytes: int = 128 * GB, **sysctls: str):
    names = {name.replace("dirty", "vm.dirty"): value for name, value in sysctls.items()}
    return make_host(ram_bytes=ram_bytes, sysctls={**RATIOS, **names})


@pytest.mark.requirement("R-KRN-01", "R-KRN-05", "R-KRN-10", "CON-07")
def test_default_ratios_are_replaced_by_bytes_at_no_cost():
    finding = says("dirty-bytes", host_with())
    assert {change.knob: change.value for change in finding.changes} == {
        "vm.dirty_background_bytes": "67108864",
        "vm.dirty_bytes": "536870912",
    }
    assert (finding.group, finding.cost) == (RuleGroup.RESPONSE_TIME, Cost.NONE)
    assert any(effect.low == 0.02 for effect in finding.effects)
    assert "No reboot" in next(one.decided for one in finding.resolutions if one.id == "CON-07")


@pytest.mark.requirement("R-KRN-02")
@pytest.mark.parametrize(
    ("ram", "background", "foreground"), [(128 * GB, "12.8 GiB", "25.6 GiB"), (64 * GB, "6.4 GiB", "12.8 GiB")]
)
def test_ratios_are_told_in_bytes_of_this_machine(ram, background, foreground):
    evidence = " ".join(says("dirty-bytes", host_with(ram)).evidence)
    assert f"vm.dirty_background_ratio = 10 comes to at most {background}" in evidence
    assert f"vm.dirty_ratio = 20 comes to at most {foreground}" in evidence


@pytest.mark.requirement("R-KRN-06")
@pytest.mark.parametrize("background", [32 * MB, 64 * MB, 128 * MB])
def test_values_that_made_no_difference_are_left_alone(background):
    finding = says("dirty-bytes", host_with(dirty_background_bytes=str(background), dirty_bytes=str(512 * MB)))
    assert finding.answer is Answer.OK


@pytest.mark.requirement("R-KRN-06")
def test_512_mb_in_background_is_too_much():
    finding = says("dirty-bytes", host_with(dirty_background_bytes=str(512 * MB), dirty_bytes=str(GB)))
    assert [(change.knob, change.value) for change in finding.changes] == [("vm.dirty_background_bytes", "67108864")]
    assert "512 MiB was too much" in " ".join(finding.evidence)


@pytest.mark.requirement("R-KRN-04", "R-KRN-07", "R-KRN-09", "R-IPC-10")
def test_texts_explain_both_thresholds_the_restore_and_where_to_persist():
    finding = says("dirty-bytes", host_with())
    assert "flusher threads begin to write" in finding.mechanism
    assert "process that writes has to write back itself" in finding.mechanism
    assert any("13 minutes" in effect.text and effect.metric == "restore time" for effect in finding.effects)
    assert "/etc/sysctl.d" in finding.persist
    assert "sysctl -p FILE" in finding.persist


@given(ram=st.integers(64 * MB, 4096 * GB), ratio=st.integers(1, 100), background=st.integers(1, 100))
def test_a_proposal_lowers_a_threshold_and_keeps_their_order(ram, ratio, background):
    host = host_with(ram, dirty_ratio=str(ratio), dirty_background_ratio=str(background))
    finding = finding_of("dirty-bytes", make_case(host))
    values = {change.knob: int(change.value) for change in finding.changes}
    in_force = {"vm.dirty_bytes": ratio / 100 * ram, "vm.dirty_background_bytes": background / 100 * ram}
    if "vm.dirty_background_bytes" in values:
        assert values["vm.dirty_background_bytes"] < in_force["vm.dirty_background_bytes"]
        assert values["vm.dirty_background_bytes"] < values.get("vm.dirty_bytes", in_force["vm.dirty_bytes"])


def test_an_unread_threshold_is_unknown():
    assert says("dirty-bytes", make_host(sysctls={"vm.dirty_bytes": "0"})).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-KRN-03")
def test_files_that_set_both_variants_are_named():
    files = {"/etc/sysctl.conf": {"vm.dirty_ratio": "10"}, "/etc/sysctl.d/50-db.conf": {"vm.dirty_bytes": "536870912"}}
    finding = says("dirty-variants", with_kernel(sysctl_files=files))
    assert finding.severity is Severity.WARNING
    assert "/etc/sysctl.d/50-db.conf" in finding.evidence[0]
    files = {"/etc/sysctl.d/50-db.conf": {"vm.dirty_bytes": "536870912", "vm.dirty_background_ratio": "5"}}
    assert says("dirty-variants", with_kernel(sysctl_files=files)).answer is Answer.OK


def wave(on: int, off: int) -> HostActivity:
    """Return the figures of a square wave of so many seconds each."""
    period, peak = on + off, (on + off) / on
    variation = (off / on) ** 0.5
    return HostActivity(WINDOW, write_peak_to_mean=peak, write_variation=variation, write_idle_share=off / period)


@pytest.mark.requirement("R-KRN-08")
def test_a_square_wave_is_a_burst_and_a_flat_rate_is_not():
    host = host_with()
    for on, off in ((1, 1), (2, 8), (5, 25)):
        finding = says("write-bursts", host, host=wave(on, off))
        assert finding.answer is Answer.FINDING
        assert "in bursts" in finding.evidence[0]
    assert says("write-bursts", host, host=wave(60, 0)).answer is Answer.OK
    assert says("write-bursts", host).answer is Answer.UNKNOWN
    assert not is_burst(1.1, 0.1)


def test_bursts_are_evidence_of_the_thresholds():
    assert "in bursts" in " ".join(says("dirty-bytes", host_with(), host=wave(1, 9)).evidence)
