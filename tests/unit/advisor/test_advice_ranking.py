"""The order of findings, the confidence of a figure away from home, the depths, and what stops a pipeline."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advice_example import make_effect, make_finding, whole
from advisor_case import make_case, make_host, make_server
from pgdyno.advisor.applicability import doubts_of
from pgdyno.advisor.case import Case
from pgdyno.advisor.engine import advise, facts_used
from pgdyno.advisor.rulebook import parse_rules, shipped_rules
from pgdyno.advisor.selection import (
    as_bad_as,
    at_depth,
    best_candidates,
    depth_for,
    in_group,
    is_about_statements,
    rank,
    stops,
)
from pgdyno.model.classes import Criticality
from pgdyno.model.evidence import WorkloadClass
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import (
    Answer,
    Change,
    ChangeKind,
    Confidence,
    Cost,
    Depth,
    Finding,
    ProofState,
    RuleGroup,
    RuleProof,
    Severity,
)
from pgdyno.model.inventory import Inventory
from pgdyno.report.advice.card import fact_rows

MEASURED = """
[[rule]]
id = "measured"
group = "throughput"
title = "A candidate of the guide of 2023"
why = "It was measured on IBM z16 with transactions, and this test looks at the confidence elsewhere."
when = "cpus > 0"
in_order = "There is no CPU."
change = [{ knob = "work_mem", value = "8MB" }]
effect = [{ text = "more", document = "epas-z16-2023", section = "Recommendation #1", low = 0.35, high = 0.35 }]
risk = "None at all."
risk_level = 0
verify = "SHOW work_mem;"
source = [{ document = "epas-z16-2023", section = "Recommendation #1" }]
"""


def ordered(*findings: Finding) -> list[str]:
    return [finding.rule for finding in sorted(findings, key=rank)]


def the_seeds() -> list[Finding]:
    """The four figures of the guide of 2023: caches, migration cost, huge pages, write-back."""
    return [
        make_finding("write-back", make_effect(0.02)),
        make_finding("huge-pages", make_effect(0.057, 0.11)),
        make_finding("caches", make_effect(0.35)),
        make_finding("migration-cost", make_effect(0.14)),
    ]


@pytest.mark.requirement("R-ADV-08")
def test_the_figures_of_the_guide_order_the_list() -> None:
    assert ordered(*the_seeds()) == ["caches", "migration-cost", "huge-pages", "write-back"]


@pytest.mark.requirement("R-ADV-08")
@given(st.permutations(range(4)))
def test_the_order_does_not_depend_on_the_files(order: list[int]) -> None:
    findings = the_seeds()
    assert ordered(*(findings[at] for at in order)) == ["caches", "migration-cost", "huge-pages", "write-back"]


@pytest.mark.requirement("R-ADV-08")
def test_of_equal_effects_the_cheap_and_safe_one_is_first() -> None:
    effect = make_effect(0.05)
    risky = make_finding("risky", effect, risk_level=3, cost=Cost.NONE)
    reboot = make_finding("reboot", effect, risk_level=0, cost=Cost.REBOOT)
    reload = make_finding("reload", effect, risk_level=0, cost=Cost.RELOAD)
    assert ordered(risky, reboot, reload) == ["reload", "reboot", "risky"]


@pytest.mark.requirement("R-ADV-18")
def test_severity_is_before_effect_and_refuted_is_last_of_its_severity() -> None:
    broken = make_finding("broken", severity=Severity.CRITICAL)
    large = make_finding("large", make_effect(0.5))
    refuted = make_finding("refuted", make_effect(0.9), state=ProofState.REFUTED)
    unknown = make_finding("unknown", answer=Answer.UNKNOWN, severity=Severity.CRITICAL)
    assert ordered(unknown, refuted, large, broken) == ["broken", "large", "refuted", "unknown"]


def test_a_doubtful_large_figure_can_stand_behind_a_sure_small_one() -> None:
    doubtful = make_finding("doubtful", make_effect(0.10), confidence=Confidence.LOW)
    assert ordered(doubtful, make_finding("sure", make_effect(0.05))) == ["sure", "doubtful"]


def test_what_was_measured_here_counts_before_what_a_source_says() -> None:
    proof = RuleProof("study", "better", 1.6, 1.5, 1.7)
    tested = make_finding("tested", make_effect(0.02), proof=proof, state=ProofState.TESTED)
    assert best_candidates([*the_seeds(), tested])[0].rule == "tested"


def confidence_on(case: Case) -> tuple[Confidence, tuple[str, ...]]:
    finding = advise(case.inventory, case.evidence, parse_rules(MEASURED, "measured.toml", shipped=False))[0]
    return finding.confidence, finding.doubts


@pytest.mark.requirement("R-ADV-03")
def test_the_confidence_is_high_where_it_was_measured_and_low_elsewhere() -> None:
    home = make_case(
        make_host(architecture="s390x", layer="LPAR"), make_server(14, flavour="EPAS"), workload=WorkloadClass.OLTP
    )
    assert confidence_on(home) == (Confidence.HIGH, ())
    guest = replace(home, inventory=replace(home.inventory, host=make_host(architecture="s390x", layer="KVM")))
    assert confidence_on(guest)[0] is Confidence.MEDIUM
    away, doubts = confidence_on(make_case(server=make_server(15), workload=WorkloadClass.OLAP))
    assert away is Confidence.LOW
    assert any("the architecture here is x86_64" in doubt for doubt in doubts)
    assert any("the load here is OLAP" in doubt for doubt in doubts)


@pytest.mark.requirement("R-ADV-03")
def test_the_confidence_is_unknown_where_no_source_gives_a_figure() -> None:
    case = make_case()
    for text in (MEASURED.replace(", low = 0.35, high = 0.35", ""), re.sub(r"effect = .*", "", MEASURED)):
        finding = advise(case.inventory, case.evidence, parse_rules(text, "measured.toml", shipped=False))[0]
        assert finding.main_effect is None or finding.main_effect.figure is None
        assert finding.confidence is Confidence.UNKNOWN
        assert ("confidence", "unknown: no source gives a figure for this change alone") in list(fact_rows(finding))
    assert Confidence.UNKNOWN.lowered() is Confidence.UNKNOWN
    assert Confidence.HIGH.lowered(9) is Confidence.LOW


@pytest.mark.requirement("R-INV-21")
def test_basic_is_a_strict_subset_of_deep() -> None:
    findings = whole().findings
    shown = {depth: {finding.rule for finding in at_depth(findings, depth)} for depth in Depth}
    assert shown[Depth.LEAVE_ALONE] < shown[Depth.BASIC] < shown[Depth.DEEP]
    assert shown[Depth.DEEP] == {finding.rule for finding in findings}


@pytest.mark.requirement("R-INV-21")
def test_what_is_critical_is_shown_at_every_depth() -> None:
    deep = make_finding("deep", depth=Depth.DEEP, severity=Severity.CRITICAL)
    fine = replace(deep, rule="fine", answer=Answer.OK)
    assert at_depth([deep, fine], Depth.LEAVE_ALONE) == (deep,)


@pytest.mark.requirement("R-INV-20")
@pytest.mark.parametrize(
    ("criticality", "depth"),
    [
        (Criticality.BUSINESS_CRITICAL, Depth.DEEP),
        (Criticality.PRODUCTION, Depth.BASIC),
        (Criticality.DEVELOPMENT, Depth.BASIC),
        (Criticality.TEST, Depth.LEAVE_ALONE),
        (Unknown("nobody said"), Depth.BASIC),
    ],
)
def test_what_depends_on_the_database_sets_the_depth(criticality: Criticality | Unknown, depth: Depth) -> None:
    assert depth_for(criticality) is depth


@pytest.mark.requirement("R-ADV-17")
def test_a_group_and_a_severity_choose() -> None:
    findings = whole().findings
    chosen = in_group(findings, RuleGroup.RESPONSE_TIME)
    assert [finding.rule for finding in chosen] == ["dirty-bytes"]
    bad = as_bad_as(findings, Severity.WARNING)
    assert {one.severity for one in bad if one.answer is Answer.FINDING} == {Severity.CRITICAL, Severity.WARNING}
    assert any(one.answer is Answer.UNKNOWN for one in bad)


@pytest.mark.requirement("R-ADV-15")
def test_a_pipeline_stops_by_severity() -> None:
    advice, note = make_finding("a"), make_finding("n", severity=Severity.NOTE)
    assert not stops([advice, note], Severity.WARNING)
    assert stops([advice, note], Severity.ADVICE)
    assert not stops([note], Severity.ADVICE)
    assert not stops([make_finding("w", severity=Severity.WARNING, answer=Answer.UNKNOWN)], Severity.WARNING)
    assert not stops([make_finding("w", severity=Severity.WARNING, state=ProofState.REFUTED)], Severity.WARNING)
    assert not stops([make_finding("c", severity=Severity.CRITICAL)], None)


@pytest.mark.requirement("R-ADV-09")
def test_statements_are_told_apart_and_are_no_setting_to_try() -> None:
    findings = whole().findings
    assert [finding.rule for finding in findings if is_about_statements(finding)] == ["slow-statement"]
    assert [one.rule for one in best_candidates(findings)] == ["shared-buffers", "max-wal-size", "dirty-bytes"]


@pytest.mark.requirement("R-ADV-07")
def test_advice_is_pure() -> None:
    case = make_case()
    before = repr(case.inventory)
    first = advise(case.inventory, case.evidence, shipped_rules())
    assert advise(case.inventory, case.evidence, shipped_rules()) == first
    assert repr(case.inventory) == before


@pytest.mark.requirement("R-ADV-05")
def test_nothing_known_is_unknown_everywhere_and_never_an_error() -> None:
    from pgdyno.model.evidence import Evidence
    from pgdyno.model.inventory import HostInventory

    nothing = Inventory(HostInventory(), Unknown("no server was asked"))
    findings = advise(nothing, Evidence(), shipped_rules())
    assert {finding.rule for finding in findings} == {rule.id for rule in shipped_rules()}
    assert not [finding.rule for finding in findings if finding.answer is Answer.FINDING and finding.changes]
    assert all(finding.reason for finding in findings if finding.answer is Answer.UNKNOWN)


@pytest.mark.requirement("R-ARC-04")
def test_an_unknown_architecture_gets_a_remark() -> None:
    from pgdyno.studies.advice.advise import AdviceRequest, advise_case

    case = make_case(make_host(architecture="riscv64"))
    advice = advise_case("db1", case.inventory, case.evidence, AdviceRequest())
    assert any("no source covers riscv64" in remark for remark in advice.remarks)


def test_what_waits_for_a_restart_gets_a_remark() -> None:
    """The rules judge what is in force: who has set another value wonders whether it was seen."""
    from pgdyno.studies.advice.advise import AdviceRequest, advise_case

    server = make_server()
    waiting = replace(server.settings["shared_buffers"], pending_restart=True)
    case = make_case(server=replace(server, settings={**server.settings, "shared_buffers": waiting}))
    told = "what is set waits for a restart, and was judged as it is in force: shared_buffers"
    assert told in advise_case("db1", case.inventory, case.evidence, AdviceRequest()).remarks
    case = make_case(server=server)
    assert not any(
        "restart" in one for one in advise_case("db1", case.inventory, case.evidence, AdviceRequest()).remarks
    )


TWO_SOURCES = MEASURED.replace(
    "low = 0.35, high = 0.35 }]",
    'low = 0.35, high = 0.35 }, { text = "less", document = "postgresql-z13-2017", section = "Recommendation #1", '
    "low = 0.5, high = 0.5 }]",
)


@pytest.mark.requirement("R-ADV-03")
def test_figure_and_doubts_are_of_one_source_the_closest() -> None:
    """Not the largest figure of a far machine, beside the doubts of a near one."""
    rules = parse_rules(TWO_SOURCES, "two.toml", shipped=False)
    host = make_host(architecture="s390x", layer="LPAR")
    near = make_case(host, make_server(14, flavour="EPAS"), workload=WorkloadClass.OLTP)
    finding = advise(near.inventory, near.evidence, rules)[0]
    assert finding.main_effect is not None
    assert (finding.main_effect.source.year, finding.doubts) == (2023, ())
    old = make_case(host, make_server(9), workload=WorkloadClass.OLTP)
    finding = advise(old.inventory, old.evidence, rules)[0]
    assert finding.main_effect is not None
    assert (finding.main_effect.source.year, finding.doubts) == (2017, ())


UNNAMED = 'document = "dbtune-ybio", section = "Logical reads from one session", low'


def test_a_source_that_names_no_architecture_is_doubted() -> None:
    text = MEASURED.replace('document = "epas-z16-2023", section = "Recommendation #1", low', UNNAMED)
    case = make_case(workload=WorkloadClass.READ_ONLY)
    (finding,) = advise(case.inventory, case.evidence, parse_rules(text, "unnamed.toml", shipped=False))
    assert any("does not name" in doubt for doubt in finding.doubts)


@pytest.mark.requirement("R-ADV-03")
def test_a_doubt_names_the_load_of_its_source() -> None:
    words = " ".join(doubts_of(make_effect(0.1, document="dbtune-ybio"), make_case(workload=WorkloadClass.OLTP)))
    assert "measured with a read-only load; the load here is OLTP" in words
    words = " ".join(doubts_of(make_effect(0.1), make_case(workload=WorkloadClass.OLAP)))
    assert "measured with an OLTP load; the load here is OLAP" in words


def test_a_fact_of_several_names_is_written_for_people() -> None:
    case = make_case(server=make_server(extensions={"plpgsql": "1.0", "pg_stat_statements": "1.12"}))
    assert facts_used(case)["extensions"] == "plpgsql, pg_stat_statements"
    assert facts_used(make_case(server=make_server(extensions={})))["extensions"] == "none"


def test_a_guess_for_the_whole_host_comes_after_the_servers_own_settings():
    linux = Change(ChangeKind.LINUX, "vm.dirty_bytes", "536870912", "0")
    own = Change(ChangeKind.POSTGRESQL, "effective_cache_size", "18GB", "4GB")
    guess = replace(make_finding("dirty-bytes", make_effect(0.02)), changes=(linux,), confidence=Confidence.LOW)
    server = replace(make_finding("effective-cache-size"), changes=(own,), confidence=Confidence.UNKNOWN)
    assert [one.rule for one in best_candidates([guess, server])] == ["effective-cache-size", "dirty-bytes"]
    sure = replace(guess, confidence=Confidence.HIGH)
    assert [one.rule for one in best_candidates([sure, server])] == ["dirty-bytes", "effective-cache-size"]
