"""The pages of advice: what is seen at a glance, what each knows, and that none says more than the findings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from advice_example import make_advice, make_effect, make_finding, whole
from pgdyno.errors import UsageError
from pgdyno.model.advice import Advice
from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.classes import Utilization
from pgdyno.model.evidence import (
    Evidence,
    WorkingSet,
    WorkingSetClass,
    WorkloadClass,
)
from pgdyno.model.finding import Answer, Change, ChangeKind, Confidence, ProofState, RuleProof
from pgdyno.report.advice.document import advice_json
from pgdyno.report.advice.explain import explain
from pgdyno.report.advice.page import advice_report, effect_bars
from pgdyno.report.advice.text import print_advice, render
from pgdyno.report.advice.words import gain, percent, state_text
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.text import print_report

PROJECT = Path(__file__).parents[3]
SCHEMA = json.loads((PROJECT / "docs" / "reference" / "advice.schema.json").read_text("utf-8"))


def page(advice: Advice, width: int = 80, *, show_all: bool = True) -> str:
    stream = StringIO()
    print_advice(advice, stream, width=width, show_all=show_all)
    return stream.getvalue()


def explained(name: str, advice: Advice) -> str:
    stream = StringIO()
    print_report(explain(name, advice), stream)
    return " ".join(stream.getvalue().split())


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for show_all in (False, True):
        assert max(len(line) for line in page(whole(), width, show_all=show_all).splitlines()) <= width


@pytest.mark.requirement("R-PG-43")
def test_a_figure_of_two_settings_names_both() -> None:
    effect = make_effect(0.35, together_with="effective_cache_size")
    assert gain(effect) == "+35 % throughput together with effective_cache_size"
    advice = make_advice(make_finding("shared-buffers", effect))
    assert "+35 % throughput together with effective_cache_size" in " ".join(page(advice, 140).split())
    drawn = effect_bars(advice.findings)
    assert drawn is not None
    assert drawn.table is not None
    assert drawn.table.rows[0][-1] == "+35 %, high"
    (tile,) = advice_report(advice).tiles
    assert (tile.value, tile.interval.startswith("together with effective_cache_size, 2023")) == ("+35 %", True)


@pytest.mark.requirement("R-KRN-24")
def test_the_head_names_what_a_container_may_use() -> None:
    advice = whole()
    host = advice.inventory.host
    limited = replace(
        host,
        memory=replace(host.memory, ram_bytes=252 << 30, limit_bytes=14 << 30, limited_by="cgroup v2"),
        processor=replace(host.processor, cpus=64, usable=8),
    )
    text = page(replace(advice, inventory=replace(advice.inventory, host=limited)), 100)
    assert "8 of 64 CPUs, 14 GB of 252 GB (cgroup v2)" in text
    assert " of 8 CPUs" not in page(advice)


@pytest.mark.requirement("R-INV-20", "R-INV-22")
def test_what_the_load_is_stands_above_the_findings() -> None:
    advice = whole()
    assert "load:" not in page(advice)  # nothing is known of it
    seen = Evidence(
        workload=WorkloadClass.OLTP,
        working_set=WorkingSet(WorkingSetClass.RAM_TWICE, 1, 2, "seen"),
        bottleneck=BottleneckVerdict(Resource.CPU, None, ("The CPUs were 95 % busy. (Threshold 85 %.)",)),
        utilization=Utilization.HIGH,
    )
    watched = replace(advice, evidence=seen)
    assert "load: OLTP, the working set fits twice in RAM, limited by the processors, utilization high" in page(
        watched, 100
    )
    rows = {row["name"]: row["value"] for row in json.loads(advice_json(watched))["environment"]}
    assert rows["utilization"] == "high"
    assert rows["limited by"] == "the processors. The CPUs were 95 % busy."
    assert rows["size of the databases"] in (None, "small", "medium", "large")
    told = replace(watched, inventory=replace(advice.inventory, utilization=Utilization.LOW))
    assert "utilization low" in page(told, 100)  # somebody who knows more than one window


@pytest.mark.requirement("R-ADV-17")
def test_findings_are_grouped_by_severity_and_group_and_ranked() -> None:
    lines = page(whole()).splitlines()
    headings = [line for line in lines if re.fullmatch(r"(Critical|Warning|Advice|Note) · .*", line)]
    assert headings == [
        "Critical · general",
        "Warning · throughput",
        "Advice · throughput",
        "Advice · response time",
        "Note · throughput",
    ]


@pytest.mark.requirement("R-ADV-09")
def test_statements_and_the_three_best_come_first() -> None:
    text = page(whole())
    places = [text.index(word) for word in ("SQL first", "slow-statement", "The three best candidates", "Critical ·")]
    assert places == sorted(places)
    best = text[places[2] : places[3]]
    assert re.findall(r"^\s+\d  (\S+)", best, re.MULTILINE) == ["shared-buffers", "max-wal-size", "dirty-bytes"]


def test_unknown_differs_from_ok() -> None:
    text = page(whole())
    assert "[unknown]  thp, swap-area" in text
    assert "[ok] autovacuum" in text
    assert "THP is unknown (EPERM)" in text
    assert "[n/a]" not in page(whole(), show_all=False)
    assert "[n/a] edat  it is for s390x, and this is x86_64" in page(whole(), show_all=True)


def test_what_is_not_proposed_has_no_state_and_no_confidence() -> None:
    told = explained("thp", make_advice(make_finding("thp", make_effect(0.1), answer=Answer.UNKNOWN, reason="EPERM")))
    assert "figure +10 % throughput" in told
    for word in ("state ", "proposed:", "confidence "):
        assert word not in told


def test_a_change_that_has_commands_shows_them_and_not_a_name_with_a_value() -> None:
    commands, undo = ("lvchange -r auto /dev/vg/data",), ("lvchange -r 0 /dev/vg/data",)
    change = Change(ChangeKind.BLOCK, "read_ahead_kb", "512", "0", device="/dev/vg/data", commands=commands, undo=undo)
    text = explained("read-ahead", make_advice(make_finding("read-ahead", changes=(change,))))
    assert commands[0] in text
    assert undo[0] in text


def test_no_word_and_no_full_stop_is_said_twice() -> None:
    effect = make_effect(None, text="Waits were shorter.")
    finding = make_finding("quiet", effect, risk="None: this is an observation.", risk_level=0)
    text = explained("quiet", make_advice(finding))
    assert "none: this is an observation." in text
    assert "None" not in text
    assert ".." not in text


@pytest.mark.requirement("R-ADV-01", "R-ADV-03")
def test_a_finding_shows_change_effect_doubt_cost_risk_and_state() -> None:
    text = " ".join(page(whole()).split())
    assert "max_wal_size: 1 -> 2" in text
    assert "vm.dirty_bytes: 0 -> 536870912 (512 MiB)" in text
    assert "+7 to +12 % throughput (2023, s390x), confidence high" in text
    assert "doubt the load here is OLAP" in text
    assert "decided CON-04: 20.96 %, computed from the rows" in text
    assert "tested here: better here: throughput 1.21x [1.15, 1.27] (study 20260101-ab)" in text
    assert "refuted here" in text
    assert "and 1 more" in text


@pytest.mark.parametrize(
    ("state", "verdict", "words"),
    [
        (ProofState.PROPOSED, "not resolved", "proposed and measured: not resolved here: throughput 1.03x [0.9, 1.2]"),
        (ProofState.NEEDS_TEST, "not resolved", "needs-test and measured: not resolved here"),
        (ProofState.TESTED, "better", "tested here: better here"),
        (ProofState.REFUTED, "worse", "refuted here: worse here"),
    ],
)
def test_what_was_measured_is_not_called_unmeasured(state: ProofState, verdict: str, words: str) -> None:
    finding = replace(make_finding("a-rule"), state=state, proof=RuleProof("s1", verdict, 1.03, 0.9, 1.2))
    assert words in state_text(finding)
    assert "not measured" not in state_text(finding)
    live = replace(finding, proof=replace(finding.proof, metric="statement_time"))
    assert "here: statement time 1.03x" in state_text(live)


def test_the_end_says_how_to_prove_emit_and_apply() -> None:
    text = page(whole())
    for command in ("advise --explain shared-buffers", "experiment --rule shared-buffers", "--emit", "pgdyno apply"):
        assert command in text


def test_no_colour_without_a_terminal_and_none_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in page(whole())
    monkeypatch.setenv("NO_COLOR", "1")
    stream = StringIO()
    Console(file=stream, force_terminal=True, width=80).print(render(whole(), 80))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", stream.getvalue())


def test_no_findings_is_said() -> None:
    text = page(make_advice(make_finding("autovacuum", answer=Answer.OK, reason="on")))
    assert "No findings" in text
    assert "best candidate" not in text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.35, 0.35, "+35 % throughput"),
        (0.057, 0.11, "+5.7 to +11 % throughput"),
        (0.07, None, "+7 % throughput"),
        (-0.02, -0.02, "-2 % throughput"),
        (None, None, ""),
    ],
)
def test_a_gain_reads_as_its_source_states_it(low: float | None, high: float | None, text: str) -> None:
    effect = make_effect(low)
    assert gain(effect if high is None else make_effect(low, high)) == text


@pytest.mark.requirement("CON-04")
def test_percentages_are_computed_from_the_rows() -> None:
    assert percent(62874.62 / 51978 - 1) == "+21 %"
    assert f"{(62874.62 / 51978 - 1) * 100:.2f}" == "20.96"


class Outline(HTMLParser):
    """The ids, details and headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.open: list[str] = []
        self.styles = 0
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        self.styles += "style" in values
        self.fetched += [tag] if tag in ("script", "link", "img") and {"src", "href"} & values.keys() else []
        if tag == "details" and "open" in values:
            self.open.append(values.get("id") or "")


def test_html_is_one_file_with_a_card_for_each_finding() -> None:
    text = html.render(advice_report(whole()))
    outline = Outline()
    outline.feed(text)
    findings = [finding.rule for finding in whole().findings if finding.answer is Answer.FINDING]
    assert {f"rule-{rule}" for rule in findings} <= set(outline.ids)
    assert outline.open == ["rule-fsync"]
    assert outline.styles == 0
    assert "default-src" in text
    assert outline.fetched == []


def test_text_of_a_target_is_no_markup() -> None:
    bad = make_advice(
        make_finding("x", title="<script>alert(1)</script>", evidence=("a | b & <b>c</b>",)), target="<db>"
    )
    assert "<script>alert(1)" not in html.render(advice_report(bad))
    assert "<b>c" not in markdown.render(advice_report(bad)).replace("\\<b", "")


def test_markdown_has_every_finding_and_every_section() -> None:
    text = markdown.render(advice_report(whole()))
    for word in (
        "## Candidates",
        "## Critical",
        "## Unknown",
        "## In order",
        "## Contradictions decided",
        "## Environment",
    ):
        assert word in text
    assert text.count("\n### ") == sum(finding.answer is Answer.FINDING for finding in whole().findings) + 1


def test_the_bars_are_the_sources_figures() -> None:
    figure = effect_bars(whole().findings[2:6])
    assert figure is not None
    assert figure.series[0].y == (35.0, pytest.approx(7.0), 2.0)
    assert figure.series[0].hi == (35.0, pytest.approx(12.0), 2.0)
    assert [row[-1] for row in figure.table.rows] == ["+35 %, high", "+7 to +12 %, high", "+2 %, medium"]
    assert effect_bars([make_finding("x")]) is None


@pytest.mark.requirement("R-ADV-02")
def test_explain_says_everything_of_a_finding() -> None:
    text = explained("dirty-bytes", whole())
    for words in (
        "It is better so.",
        "Recommendation",
        "(2023); measured on IBM z16, 24 IFLs with SMT-2, 128 GiB, RHEL 8, EPAS 14.4.0, HammerDB 4.5, TPROC-C",
        "medium: lowered by 1 difference",
        "the load here is OLAP",
        "CON-04",
        "SHOW it.",
        "vm.dirty_bytes = 536870912",
    ):
        assert words in text
    assert "mv b a" in explained("wal-placement", whole())


def test_explain_of_another_answer_says_its_reason() -> None:
    assert "[unknown] THP is unknown (EPERM)" in explained("thp", whole())
    fine = explained("autovacuum", whole())
    assert "[ok] autovacuum is on." in fine
    assert fine.startswith("ok autovacuum: nothing to do here rule autovacuum")
    assert "when it fires Mend autovacuum" in fine


def test_explain_hints_at_the_nearest_rule() -> None:
    with pytest.raises(UsageError) as caught:
        explain("shared-bufers", whole())
    assert caught.value.hint == "Did you mean shared-buffers?"
    with pytest.raises(UsageError, match='no contradiction "CON-99"'):
        explain("CON-99", whole())


def test_a_confidence_that_is_not_lowered_needs_no_words() -> None:
    assert "lowered" not in explained("max-wal-size", whole())
    assert whole().of("max-wal-size").confidence is Confidence.HIGH


@pytest.mark.requirement("R-REP-08")
def test_every_finding_says_how_its_effect_is_verified() -> None:
    told = replace(whole().findings[0], verify="sar -u 1 60 shows less iowait, and the log no hint")
    text = markdown.render(advice_report(make_advice(told)))
    assert "| verify | sar -u 1 60 shows less iowait, and the log no hint |" in text
