"""What `--explain CON-nn` says was decided here: by a condition of the target, also where a rule lacks its evidence."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from advisor_case import finding_of, make_case, make_server
from captured import CAPTURES
from pgdyno.advisor.rulebook import contradictions, shipped_rules
from pgdyno.model.advice import Advice
from pgdyno.model.finding import Answer
from pgdyno.report.advice.explain import explain_contradiction
from pgdyno.report.sections import FactList
from pgdyno.studies.advice.advise import AdviceRequest, OfflineFiles, advise_offline

RULED = [name for name, one in contradictions().items() if " " not in one.decided_by]
NEEDS_A_WINDOW = {"CON-19", "CON-39", "CON-40", "CON-45"}
"""Their conditions are a rate, a working set, sessions and devices: a capture without a window cannot tell."""


@cache
def advice_on(name: str) -> Advice:
    return advise_offline(OfflineFiles(CAPTURES / name, None, None, None), AdviceRequest(), store_for=lambda _: None)


def decided(name: str, capture: str) -> dict[str, str]:
    """Return the rows of the explanation that say what was decided, by their labels."""
    block = explain_contradiction(name, advice_on(capture)).sections[0].blocks[0]
    assert isinstance(block, FactList)
    return {label: text for label, text in block.rows if label.startswith("decided here")}


@pytest.mark.parametrize("capture", ["s390x-lpar-128g", "s390x-lpar-4ifl", "x86_64-128g", "ppc64le-64k"])
@pytest.mark.parametrize("name", RULED)
def test_a_capture_without_a_window_decides_all_but_what_a_window_shows(name: str, capture: str) -> None:
    found = decided(name, capture)
    if name in NEEDS_A_WINDOW:
        assert list(found) == ["decided here"]
        assert found["decided here"].startswith("open, a fact that decides is missing: rule ")
    else:
        assert all(label.startswith("decided here by ") for label in found)
        assert all(text.endswith(".") for text in found.values())


@pytest.mark.requirement("CON-15")
@pytest.mark.parametrize(
    ("capture", "said", "not_said"),
    [
        ("s390x-lpar-128g", "Kernel 4.18 is below 5.13: it is the sysctl kernel.sched_migration_cost_ns.", "debug"),
        (
            "ppc64le-64k",
            "Kernel 5.14 is not below 5.13: no sysctl line is written, it is /sys/kernel/debug/",
            "the sysctl",
        ),
    ],
)
def test_the_kernel_decides_where_the_migration_cost_is(capture: str, said: str, not_said: str) -> None:
    text = decided("CON-15", capture)["decided here by migration-cost"]
    assert text.startswith(said)
    assert not_said not in text


@pytest.mark.requirement("CON-14")
@pytest.mark.parametrize(
    ("capture", "said"),
    [
        ("s390x-lpar-4ifl", "4 CPUs lie together, a small image: a candidate for a test."),
        ("x86_64-128g", "32 CPUs lie together, a large image: tested first, adopted only when it is positive."),
    ],
)
def test_the_image_decides_whether_a_lower_cost_is_a_candidate(capture: str, said: str) -> None:
    assert decided("CON-14", capture) == {"decided here by migration-cost": said}


@pytest.mark.requirement("CON-18")
@pytest.mark.parametrize(("context", "said"), [("sighup", "A reload is enough"), ("postmaster", "A restart is needed")])
def test_the_context_on_the_server_decides_between_reload_and_restart(context: str, said: str) -> None:
    row = replace(make_case().row("max_wal_size"), context=context)
    finding = finding_of("max-wal-size", make_case(server=make_server(extra={"max_wal_size": row})))
    assert finding.answer is Answer.UNKNOWN
    text = next(one.decided for one in finding.resolutions if one.id == "CON-18")
    assert text.startswith(f"{said}: max_wal_size has the context {context} in version ")


@pytest.mark.requirement("CON-34")
def test_the_servers_minimum_decides_without_any_evidence_of_spills() -> None:
    row = replace(make_case().row("work_mem"), min_val="128")
    finding = finding_of("work-mem", make_case(server=make_server(extra={"work_mem": row})))
    assert finding.answer is Answer.UNKNOWN
    assert "takes no work_mem below 128kB" in finding.resolutions[0].decided


@pytest.mark.requirement("CON-12")
def test_durability_does_not_come_from_an_fsync_that_is_off() -> None:
    text = finding_of("fsync", make_case(server=make_server(changed={"fsync": "off"}))).resolutions[0].decided
    assert text.startswith("With fsync = off nothing is durable: ")


@pytest.mark.requirement("CON-11")
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("", "Direct I/O does not apply to the data directory: with io_method = worker reads are asynchronous"),
        ("data", "debug_io_direct = data opens the data directory with direct I/O: an option for developers"),
    ],
)
def test_whether_data_files_are_buffered_is_read_from_the_server(option: str, said: str) -> None:
    finding = finding_of("double-caching", make_case(server=make_server(18, changed={"debug_io_direct": option})))
    assert finding.resolutions[0].decided.startswith(said)


@pytest.mark.requirement("CON-30")
def test_volumes_that_are_unknown_are_not_called_absent() -> None:
    finding = finding_of("hot-tables", make_case())
    assert finding.answer is Answer.UNKNOWN
    assert not finding.resolutions


def test_what_a_rule_settles_is_a_contradiction_that_it_declares() -> None:
    settling = {rule.id: set(rule.contradictions) for rule in shipped_rules() if rule.settle is not None}
    advice = advice_on("s390x-lpar-128g")
    assert settling
    for name, declared in settling.items():
        finding = advice.of(name)
        assert finding is not None
        assert {one.id for one in finding.resolutions} <= declared
        assert len({one.id for one in finding.resolutions}) == len(finding.resolutions)
