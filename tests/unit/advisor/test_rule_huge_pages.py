"""Rules on huge pages: the need in pages of each machine, pools that fit nothing, machines without any."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import GB, MB, make_case, make_host, make_server
from facts_from_params import make_facts
from kernel_case import buffers, judged, says, with_memory
from pgdyno.advisor.judgement import DoesNotApply, Fires
from pgdyno.advisor.shared_memory import need_now, need_proposed
from pgdyno.knobs.linux_constraints import linux_refusals
from pgdyno.knobs.memory import shared_bytes
from pgdyno.model.evidence import WorkloadClass
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Cost, Severity
from pgdyno.model.inventory import Virtualization

POOL = "vm.nr_hugepages"


def pages_of(finding) -> int:
    return next(int(change.value) for change in finding.changes if change.knob == POOL)


def pool_of(total: int, **parts: object):
    return with_memory(make_host(**parts), huge_pages_total=total, huge_pages_free=total)


@pytest.mark.requirement("R-KRN-11", "R-KRN-12", "R-KRN-13", "CON-16", "CON-17", "R-ARC-01", "R-ARC-02", "R-ARC-03")
@pytest.mark.parametrize(
    ("architecture", "page", "low", "high"),
    [
        ("s390x", MB, 33516, 38912),
        ("x86_64", 2 * MB, 16758, 19456),
        ("ppc64le", 16 * MB, 2095, 2300),
        ("ppc64le", 2 * MB, 16758, 19456),
    ],
)
def test_pool_of_32_gb_is_counted_in_pages_of_the_machine(architecture, page, low, high):
    host = make_host(architecture=architecture, huge_page_bytes=page)
    finding = says("huge-pages", host, buffers(32 * GB))
    pages = pages_of(finding)
    assert low < pages < high
    assert pages not in (38912, 17408)
    assert pages * page > 32 * GB
    assert {one.id for one in finding.resolutions} == {"CON-16", "CON-17"}
    assert finding.cost is Cost.RESTART


@pytest.mark.requirement("R-KRN-11")
def test_a_proposed_shared_buffers_counts_and_not_the_present_one():
    case = replace(make_case(make_host(huge_page_bytes=MB)), earlier={"shared_buffers": "32GB"})
    judgement = judged("huge-pages", case)
    assert isinstance(judgement, Fires)
    assert 33516 < int(judgement.changes[0].value) < 38912
    assert "as proposed" in judgement.evidence[0]


@pytest.mark.requirement("R-KRN-14")
@pytest.mark.parametrize(("size", "measured"), [(32 * GB, 33516 * MB), (16 * GB, 16771 * MB)])
def test_the_formula_is_within_two_percent_of_what_15_says(size, measured):
    need = need_now(make_case(server=buffers(size)))
    assert not need.exact
    assert measured <= need.bytes <= 1.02 * measured


@pytest.mark.requirement("R-KRN-14", "R-KRN-15")
def test_what_the_server_says_comes_before_the_formula():
    server = replace(buffers(32 * GB), huge_pages_needed=16758, peak_memory_bytes=33530 * MB)
    need = need_now(make_case(server=server))
    assert (need.bytes, need.exact, need.pages(2 * MB)) == (33516 * MB, True, 16758)
    path = "/proc/4711/task/4711/status"
    old = replace(buffers(32 * GB, 13), peak_memory_bytes=33530 * MB, peak_memory_file=path)
    need = need_now(make_case(server=old))
    assert need.exact
    assert path in need.source
    assert abs(need.bytes - 33516 * MB) < 0.02 * need.bytes


@pytest.mark.requirement("CON-17", "R-KRN-13")
@given(now=st.integers(128 * MB, 256 * GB), then=st.integers(128 * MB, 256 * GB), page=st.sampled_from([1, 2, 16]))
def test_a_pool_always_exceeds_the_buffers_by_a_few_percent(now, then, page):
    case = replace(make_case(server=buffers(now)), earlier={"shared_buffers": f"{then // MB}MB"})
    need = need_proposed(case)
    pool = need.pool(page * MB) * page * MB
    size = then // MB * MB
    assert size < need.bytes
    assert 1.02 * need.bytes <= pool < 1.02 * need.bytes + page * MB
    assert pool < 1.08 * size + 128 * MB


@pytest.mark.parametrize("size", [GB, 16 * GB, 32 * GB])
@pytest.mark.parametrize("deviation", [0.99, 1.0, 1.01])
def test_a_proposed_pool_passes_the_constraints_that_apply_asks(size, deviation):
    facts = make_facts(18, ram_bytes=128 * GB)
    facts = replace(facts, host=replace(facts.host, huge_page_bytes=2 * MB))
    estimate = shared_bytes({"shared_buffers": f"{size // MB}MB"}, facts)
    server = replace(buffers(size, 18), shared_memory_bytes=round(estimate * deviation))
    pool = need_now(make_case(server=server)).pool(2 * MB)
    asked = {"shared_buffers": f"{size // MB}MB", "vm.nr_hugepages": str(pool)}
    assert not [refusal for refusal in linux_refusals(asked, facts, connections=10) if "too few" in refusal.reason]


@pytest.mark.requirement("R-KRN-12", "CON-16")
def test_17408_pages_of_2_mb_are_critical():
    finding = says("huge-page-pool", pool_of(17408, ram_bytes=64 * GB), buffers(16 * GB))
    assert finding.severity is Severity.CRITICAL
    assert any("reserves 34 GiB" in text for text in finding.evidence)
    assert any("guide of 2017" in text for text in finding.evidence)
    assert 8385 < pages_of(finding) < 9216


@pytest.mark.requirement("R-KRN-12")
def test_38912_pages_of_1_mb_are_what_the_guide_meant():
    finding = says("huge-page-pool", pool_of(38912, architecture="s390x", huge_page_bytes=MB), buffers(32 * GB))
    assert finding.severity is Severity.ADVICE
    assert pages_of(finding) < 38912


@pytest.mark.requirement("R-KRN-13")
@pytest.mark.parametrize(("wish", "severity"), [("on", Severity.CRITICAL), ("try", Severity.WARNING)])
def test_a_pool_equal_to_shared_buffers_is_an_error(wish, severity):
    finding = says("huge-page-pool", pool_of(16384), buffers(32 * GB, huge_pages=wish))
    assert (finding.answer, finding.severity) == (Answer.FINDING, severity)
    assert any("just shared_buffers" in text for text in finding.evidence)
    assert pages_of(finding) > 16758


@pytest.mark.requirement("R-KRN-18")
def test_a_pool_of_twice_the_need_is_waste_in_gib():
    finding = says("huge-page-pool", pool_of(2 * 8386, ram_bytes=64 * GB), buffers(16 * GB))
    assert finding.severity is Severity.WARNING
    assert any("16.3 GiB of that are lost to the page cache" in text for text in finding.evidence)


def test_a_pool_that_fits_is_in_order_and_proposed_no_second_time():
    host, server = pool_of(17157), buffers(32 * GB)
    assert says("huge-page-pool", host, server).answer is Answer.OK
    assert says("huge-pages", host, server).answer is Answer.OK


@pytest.mark.requirement("R-KRN-13")
def test_a_pool_that_the_server_does_not_use_is_a_warning():
    server = replace(buffers(32 * GB), huge_pages_in_use=False)
    finding = says("huge-page-pool", pool_of(17157), server)
    assert finding.severity is Severity.WARNING
    assert "not in use" in finding.current
    assert finding.changes == ()
    assert any("Restart the server" in text for text in finding.alternatives)
    off = says("huge-page-pool", pool_of(17157), buffers(32 * GB, huge_pages="off"))
    assert ("huge_pages", "try") in [(change.knob, change.value) for change in off.changes]


@pytest.mark.requirement("R-KRN-19")
def test_s390x_without_edat_has_none():
    host = with_memory(make_host(architecture="s390x"), huge_pages_supported=False)
    finding = says("huge-pages", host, buffers(32 * GB))
    assert finding.answer is Answer.NOT_APPLICABLE
    assert "not available here" in finding.reason
    assert "edat" in finding.reason


@pytest.mark.requirement("R-KRN-19")
@pytest.mark.parametrize(("layer", "mentioned"), [("LPAR", True), ("KVM", True), ("z/VM", False)])
def test_pages_of_2_gib_are_mentioned_in_lpar_and_kvm_only(layer, mentioned):
    host = make_host(architecture="s390x", huge_page_bytes=MB, layer=layer)
    finding = says("huge-pages", with_memory(host, huge_page_sizes=(MB, 2 * GB)), buffers(32 * GB))
    assert any("Pages of 2 GiB" in text for text in finding.alternatives) is mentioned


@pytest.mark.requirement("R-KRN-16", "CON-38")
def test_small_buffers_are_left_alone_and_effects_are_those_of_the_sources():
    finding = says("huge-pages", make_host(ram_bytes=2 * GB), buffers(512 * MB))
    assert finding.answer is Answer.NOT_APPLICABLE
    assert "small effect" in finding.reason
    large = says("huge-pages", make_host(), buffers(32 * GB))
    assert {(effect.low, effect.high) for effect in large.effects} == {(0.057, 0.057), (None, 0.11), (0.07, 0.07)}
    assert any("remain for the page cache" in text for text in large.evidence)


@pytest.mark.requirement("R-KRN-16")
@pytest.mark.parametrize(("size", "figure"), [(32 * GB, 0.057), (64 * GB, 0.11), (60 * GB, 0.11), (40 * GB, 0.057)])
def test_the_effect_is_that_of_the_nearest_share_of_memory(size, figure):
    host = make_host(architecture="s390x", layer="LPAR", huge_page_bytes=MB)
    finding = says("huge-pages", host, buffers(size, 14), workload=WorkloadClass.OLTP)
    assert finding.main_effect is not None
    assert finding.main_effect.figure == figure


def test_a_pool_for_a_container_belongs_to_the_host():
    host = replace(make_host(), virtualization=Virtualization("none", "podman"))
    assert any("belongs to the host" in text for text in says("huge-pages", host, buffers(32 * GB)).doubts)


def test_system_v_main_memory_takes_no_huge_pages():
    server = buffers(32 * GB, shared_memory_type="sysv")
    assert isinstance(judged("huge-pages", make_case(server=server)), DoesNotApply)


def test_pages_of_another_size_are_not_judged():
    server = buffers(32 * GB, huge_page_size=str(1 << 20))
    assert says("huge-pages", make_host(), server).answer is Answer.UNKNOWN
    for pages in (0, 500):  # of 2 MB, which say nothing of a pool of 1 GB
        assert says("huge-page-pool", pool_of(pages), server).answer is Answer.UNKNOWN


@pytest.mark.parametrize("wish", ["try", "on"])
def test_what_a_server_uses_is_not_told_by_pages_of_another_size(wish):
    """It was told that the 500 pages of 2 MB are too few, or with `on` not to start, with a pool of 1 GB that fits."""
    server = buffers(32 * GB, huge_page_size=str(1 << 20), huge_pages=wish)
    used = says("huge-page-use", pool_of(500), replace(server, huge_pages_in_use=True))
    assert used.answer is Answer.OK
    assert "pages of 1 GiB" in used.reason
    left = says("huge-page-use", pool_of(500), replace(server, huge_pages_in_use=False))
    assert "pages of 1 GiB" in left.proposed
    assert not any("500" in text or "2 MB" in text for text in left.evidence)


@pytest.mark.parametrize(("total", "fits"), [(7, True), (8, True), (9, False)])
def test_a_pool_of_1_gb_pages_is_not_proposed_again(total: int, fits: bool):
    """Of 8 pages where 7 are needed one was called lost, and 8 were proposed: it is the reserve."""
    server = replace(buffers(6 * GB), huge_pages_needed=7, shared_memory_bytes=6350 * MB)
    host = with_memory(pool_of(total, ram_bytes=24 * GB), huge_page_bytes=GB)
    finding = says("huge-page-pool", host, server)
    assert (finding.answer is Answer.OK) is fits
    unused = says("huge-page-pool", host, replace(server, huge_pages_in_use=False))
    assert (unused.changes == ()) is fits
    assert fits or [change.value for change in finding.changes] == ["8"]


def test_an_unknown_page_size_is_unknown():
    host = with_memory(huge_page_bytes=Unknown("no line Hugepagesize"))
    assert (
        says("huge-pages", host, make_server(15, changed={"shared_buffers": str(GB // 4096)})).answer is Answer.UNKNOWN
    )


@pytest.mark.requirement("R-KRN-15")
@pytest.mark.parametrize(
    ("size", "peak", "believed"),
    [(128 * MB, 350 * MB, True), (128 * MB, 8810 * MB, False), (16 * GB, 350 * MB, False)],
)
def test_a_peak_that_the_settings_do_not_explain_is_no_measure(size, peak, believed):
    server = replace(buffers(size, 14), peak_memory_bytes=peak, peak_memory_file="/proc/4711/status")
    case = make_case(server=server)
    need = need_now(case)
    assert (need.bytes == peak, need.exact) == (believed, believed)
    assert "/proc/4711/status" in need.source
    proposed = need_proposed(replace(case, earlier={"shared_buffers": "32GB"}))
    assert 33516 * MB < proposed.bytes < 34200 * MB
    assert ("says nothing here" in need.source, "says nothing here" in proposed.source) == (not believed, not believed)


@pytest.mark.parametrize("setting", ["1e400", "-5", "abc", ""])
def test_settings_that_add_up_to_nothing_leave_the_pool_unknown(setting):
    server = buffers(128 * MB, 14, shared_buffers=setting, max_connections=setting, huge_pages="on")
    finding = says("huge-pages", make_host(), server)
    assert (finding.answer, finding.changes) == (Answer.UNKNOWN, ())


def test_pages_of_another_size_are_not_counted_in_this_hosts():
    """A server with 2 MiB pages told its number; the host of the capture has pages of 1 MiB."""
    told = {"huge_pages_needed": 2200, "shared_memory_bytes": 4400 * MB}
    here = {True: 2 * MB, False: MB}
    for fits, page in here.items():
        need = need_now(make_case(make_host(huge_page_bytes=page), make_server(18, **told)))
        assert need.bytes == 4400 * MB
        assert ("of another size" in need.source) is not fits
