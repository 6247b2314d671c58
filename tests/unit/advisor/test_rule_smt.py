"""The rule on SMT and its plan of a comparison."""

from __future__ import annotations

import pytest

from advisor_case import make_host
from kernel_case import says, with_processor
from pgdyno.advisor.rules.smt import commands, comparison, levels_below
from pgdyno.model.finding import Answer, ProofState, Severity


def power(level: int):
    host = make_host(architecture="ppc64le", cpus=8 * level, page_size=65536)
    return with_processor(host, cores=8, threads_per_core=level, max_threads=8)


@pytest.mark.requirement("R-SCH-12", "R-SCH-15", "R-ARC-02")
def test_power_gets_commands_for_smt_8_4_and_2():
    finding = says("smt-level", power(8))
    assert (finding.severity, finding.current) == (Severity.NOTE, "SMT8")
    assert [text for text in finding.alternatives if text.startswith("ppc64_cpu")] == [
        "ppc64_cpu --smt=8",
        "ppc64_cpu --smt=4",
        "ppc64_cpu --smt=2",
    ]
    assert "8 of 8 threads per core" in finding.evidence[0]


@pytest.mark.requirement("R-SCH-12")
def test_a_lower_level_is_proposed_back_as_something_to_test():
    finding = says("smt-level", power(2))
    (change,) = finding.changes
    assert (change.knob, change.value, change.current) == ("cpu.smt", "8", "2")
    assert finding.state is ProofState.NEEDS_TEST
    off = with_processor(make_host(), threads_per_core=1, max_threads=2)
    assert [(change.value, change.current) for change in says("smt-level", off).changes] == [("on", "off")]


@pytest.mark.requirement("R-SCH-13")
def test_the_highest_client_count_is_left_out_at_lower_levels_with_a_reason():
    cells = comparison((8, 4, 2), (112, 224, 448))
    skipped = [(cell.level, cell.clients) for cell in cells if cell.skipped]
    assert skipped == [(4, 448), (2, 448)]
    assert all("of the CPUs" in cell.skipped for cell in cells if cell.skipped)
    assert any("are not run at SMT4" in text for text in says("smt-level", power(8)).alternatives)


@pytest.mark.requirement("R-SCH-14")
def test_effect_of_fewer_threads_is_that_of_the_source_rows():
    smt8 = {112: (56470.1, 622, 203, 219), 224: (55241.3, 842, 271, 353)}
    smt4 = {112: (50499.4, 339, 115, 185), 224: (48678.2, 971, 311, 381)}
    changes = [f"{smt4[clients][0] / smt8[clients][0] - 1:+.1%}".replace("%", " %") for clients in smt8]
    (effect,) = says("smt-level", power(8)).effects
    assert changes == ["-10.6 %", "-11.9 %"]
    assert all(change in effect.text for change in changes)
    falls = {new < old for clients in smt8 for old, new in zip(smt8[clients][1:], smt4[clients][1:], strict=True)}
    assert falls == {True, False}  # some locks fell and some rose, as the effect's text says
    assert "some rose" in effect.text


@pytest.mark.requirement("R-SCH-15", "R-ARC-03")
@pytest.mark.parametrize(("architecture", "word"), [("s390x", "IFL"), ("x86_64", "Hyper-Threading")])
def test_smt_2_is_called_by_its_name(architecture, word):
    host = with_processor(make_host(architecture=architecture), threads_per_core=2, max_threads=2)
    assert word in says("smt-level", host).evidence[0]


def test_cores_with_one_thread_have_no_level():
    assert says("smt-level", make_host()).answer is Answer.NOT_APPLICABLE
    assert levels_below(2) == (2, 1)
    assert commands("x86_64", (2, 1))[1].startswith("echo off")
