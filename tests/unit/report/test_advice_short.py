"""The short page of advice: what matters first, nothing that only a load justifies on an idle server, counts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO

import pytest

from advice_example import make_advice, make_effect, make_finding, whole
from advisor_case import make_case, make_host
from pgdyno.advisor.engine import advise
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.advisor.selection import best_candidates
from pgdyno.model.advice import Advice
from pgdyno.model.evidence import WorkloadClass
from pgdyno.model.facts import LittleLoad, NoLoad
from pgdyno.model.finding import Answer, ProofState, RuleProof, Severity
from pgdyno.report.advice.document import advice_json
from pgdyno.report.advice.short import MOST_WARNINGS
from pgdyno.report.advice.text import print_advice


def short(advice: Advice, width: int = 100, *, show_all: bool = False) -> str:
    stream = StringIO()
    print_advice(advice, stream, width=width, show_all=show_all)
    return stream.getvalue()


def numbered(text: str) -> list[str]:
    return re.findall(r"^  \d+  \[\w+\] (\S+)", text, re.MULTILINE)


DIRTY = {
    "vm.dirty_bytes": "0",
    "vm.dirty_background_bytes": "0",
    "vm.dirty_ratio": "20",
    "vm.dirty_background_ratio": "10",
}


def idle_advice() -> Advice:
    case = make_case(make_host(sysctls=DIRTY))
    evidence = replace(case.evidence, workload=NoLoad("fewer than 10,000 transactions were counted"))
    return replace(make_advice(*advise(case.inventory, evidence, shipped_rules())), evidence=evidence)


@pytest.mark.requirement("R-ADV-09")
def test_consequence_orders_what_is_told_first() -> None:
    text = short(whole())
    assert text.index("SQL first") < text.index("First, by consequence")
    assert numbered(text) == ["fsync", "max-wal-size", "shared-buffers", "dirty-bytes"]


def test_what_is_folded_is_counted_with_the_flag_that_shows_it() -> None:
    text = short(whole())
    folded = text[text.index("Folded, shown by --all") : text.index("Next")]
    for words in ("1  refuted here: huge-pages", "1  of severity note: data-checksums", "2  unknown", "1  in order"):
        assert words in folded
    assert "EPERM" not in text
    assert "pgdyno advise --all" in text[text.index("Next") :]
    assert "pgdyno advise --all" not in short(whole(), show_all=True)
    every = {one.rule for one in whole().findings}
    assert every == {rule for rule in every if rule in short(whole(), show_all=True)}


def test_warnings_are_bounded_and_what_is_critical_is_not() -> None:
    bad = [make_finding(f"bad-{n}", severity=Severity.CRITICAL) for n in range(7)]
    wrong = [make_finding(f"wrong-{n}", severity=Severity.WARNING, changes=()) for n in range(9)]
    text = short(make_advice(*bad, *wrong))
    told = numbered(text)
    assert told == [f"bad-{n}" for n in range(7)] + [f"wrong-{n}" for n in range(MOST_WARNINGS)]
    assert f"{9 - MOST_WARNINGS}  more of severity warning: wrong-5" in text


def test_nothing_that_only_a_load_could_justify_comes_first_on_an_idle_server() -> None:
    advice = idle_advice()
    waiting = {one.rule for one in advice.findings if one.answer is Answer.FINDING and one.waits_for_load}
    assert "dirty-bytes" in waiting
    assert waiting.isdisjoint(one.rule for one in best_candidates(advice.findings, 99))
    text = short(advice)
    assert waiting.isdisjoint(numbered(text))
    assert len(waiting) > 1
    assert f"{len(waiting)}  need a load, and none was seen: " in text
    assert "--window" in text


def test_a_server_that_did_little_is_not_told_that_it_had_no_load() -> None:
    """A small server in use, of two transactions a second: "load: none was seen"."""
    advice = idle_advice()
    little = LittleLoad("2 to 5 transactions a second since the reset are as few as monitoring makes")
    text = short(replace(advice, evidence=replace(advice.evidence, workload=little)))
    assert "load: too little was seen: 2 to 5 transactions" in text
    assert "need a load, and too little was seen: " in text
    assert "none was seen" not in text


def test_under_a_load_the_same_rules_are_candidates_again() -> None:
    case = make_case(make_host(sysctls=DIRTY), workload=WorkloadClass.OLTP)
    findings = advise(case.inventory, case.evidence, shipped_rules())
    assert not [one for one in findings if one.waits_for_load]
    assert "dirty-bytes" in [one.rule for one in best_candidates(findings, 99)]


def test_what_was_proved_here_waits_for_nothing() -> None:
    proof = RuleProof("20260101-ab", "better", 1.2, 1.1, 1.3)
    proved = make_finding("dirty-bytes", state=ProofState.TESTED, proof=proof, waits_for_load=True)
    assert [one.rule for one in best_candidates([proved])] == ["dirty-bytes"]
    assert numbered(short(make_advice(proved))) == ["dirty-bytes"]


def test_the_page_of_an_idle_server_is_short_and_the_document_is_whole() -> None:
    advice = idle_advice()
    text = short(advice, 120)
    assert len(text) < 4000
    assert len(text) * 3 < len(short(advice, 120, show_all=True))
    document = json.loads(advice_json(advice))
    assert {one["rule"] for one in document["findings"]} == {one.rule for one in advice.findings}
    assert {one["rule"] for one in document["findings"] if one["waits_for_load"]} >= {"dirty-bytes"}


def test_an_idle_server_with_nothing_else_has_nothing_to_do_now() -> None:
    text = short(make_advice(make_finding("dirty-bytes", make_effect(0.02), waits_for_load=True)))
    assert "Nothing to do now" in text
    assert "No findings" not in text
