"""Rule files: what is refused names file, rule and field; a file that is added adds its rules."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from advisor_case import make_case, make_server
from pgdyno.advisor.case import Case
from pgdyno.advisor.engine import advise
from pgdyno.advisor.judgement import InOrder
from pgdyno.advisor.rule import Rule, title_without_target, without_target
from pgdyno.advisor.rulebook import documents, load_rules, ordered, parse_rules, shipped_rules, shipped_text
from pgdyno.errors import UsageError
from pgdyno.model.finding import Answer, RuleProof

PROJECT = Path(__file__).parents[3]
RULE = """
[[rule]]
id = "{id}"
group = "general"
title = "statement_timeout is not set"
why = "A statement that never ends holds its locks and its snapshot for as long as it runs."
when = 'setting("statement_timeout") == 0'
in_order = "statement_timeout is set."
change = [{{ knob = "statement_timeout", value = "1h" }}]
risk = "Long reports are cancelled."
risk_level = 2
verify = "SHOW statement_timeout;"
source = [{{ document = "{document}", section = "Timeouts" }}]
{more}
"""


def rule_text(id: str = "statement-timeout", document: str = "postgresql-documentation", more: str = "") -> str:
    return RULE.format(id=id, document=document, more=more)


def parse(text: str, *, shipped: bool = False) -> list[Rule]:
    return parse_rules(text, "mine.toml", shipped=shipped)


@pytest.mark.requirement("R-ADV-16")
def test_a_rule_file_adds_a_rule(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(rule_text())
    rules = load_rules([tmp_path])
    assert len(rules) == len(shipped_rules()) + 1
    case = make_case(server=make_server(17))
    found = {finding.rule: finding for finding in advise(case.inventory, case.evidence, rules)}
    finding = found["statement-timeout"]
    assert finding.answer is Answer.FINDING
    assert [(change.knob, change.value) for change in finding.changes] == [("statement_timeout", "1h")]
    assert finding.provenance[0].document == "postgresql-documentation"


def test_the_rules_that_are_read_are_those_of_the_rule_files() -> None:
    advisor = PROJECT / "src" / "pgdyno" / "advisor"
    assert (advisor / "data" / "rules.json").read_text("utf-8") == shipped_text()
    file = advisor / "rules" / "wal.toml"
    of_the_file = parse_rules(file.read_text("utf-8"), file.name, shipped=True)
    assert [repr(rule) for rule in shipped_rules() if rule.file == file.name] == [repr(rule) for rule in of_the_file]


@pytest.mark.requirement("R-ADV-16")
def test_the_example_of_the_documentation_is_a_rule_file() -> None:
    added = set(load_rules([PROJECT / "examples" / "rules"])) - set(shipped_rules())
    assert [rule.id for rule in added] == ["idle-in-transaction"]
    guide = (PROJECT / "docs" / "howto" / "write-a-rule.md").read_text("utf-8")
    assert (PROJECT / "examples" / "rules" / "house.toml").read_text("utf-8").strip() in guide


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (rule_text(document="no-such-book"), 'statement-timeout: source 1: document "no-such-book" is not one of'),
        (rule_text(more='judge = "f"'), "either `when` or `judge`"),
        (rule_text().replace("in_order", "# in_order"), "`in_order`"),
        (rule_text(more="colour = 1"), "colour"),
        (rule_text(more="risk_level = 4").replace("risk_level = 2", ""), "risk_level"),
        (rule_text(more="risk_level = true").replace("risk_level = 2", ""), "risk_level"),
        (rule_text(more="needs_test = 1"), "needs_test"),
        (rule_text(more="scope = { from_version = true }"), "from_version"),
        (rule_text(more='effect = [{ text = "t", document = "d", low = true }]'), "low"),
        (rule_text(id="Not An Id"), 'Not An Id: "id" has small letters'),
        (rule_text().replace('group = "general"', 'group = "speed"'), 'group "speed" is not one of'),
        (rule_text().replace("== 0'", "== nothing'"), 'there is no fact "nothing"'),
        (rule_text(more='scope = { from_kernel = "six" }'), '"six" is not a kernel version'),
        (rule_text().replace("[[rule]]", "[[rules]]"), "rule"),
        ("= 1", "mine.toml"),
    ],
)
def test_a_mistake_names_file_rule_and_field(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "mine.toml" in caught.value.message
    assert message in caught.value.message


def test_a_file_of_somebody_else_cannot_name_code() -> None:
    text = rule_text(more='judge = "system"').replace("when = ", "# when = ")
    with pytest.raises(UsageError, match="only rules of the package are judged by code"):
        parse(text)


def test_the_same_id_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(rule_text())
    (tmp_path / "b.toml").write_text(rule_text())
    with pytest.raises(UsageError, match='"statement-timeout" appears twice'):
        load_rules([tmp_path])


def test_a_circle_is_told_as_one() -> None:
    one, two = (
        parse(rule_text(id=a, more=f'after = ["{b}"]'))[0] for a, b in (("a-rule", "b-rule"), ("b-rule", "a-rule"))
    )
    with pytest.raises(UsageError, match="circle: a-rule -> b-rule -> a-rule"):
        ordered([one, two])


def test_a_rule_after_none_that_exists_is_refused() -> None:
    with pytest.raises(UsageError, match='comes after "gone", which is not a rule'):
        ordered(parse(rule_text(more='after = ["gone"]')))


def test_an_early_rule_comes_first_whatever_the_files_order() -> None:
    late = parse(rule_text(id="late", more='after = ["early"]'))[0]
    early = parse(rule_text(id="early"))[0]
    assert [rule.id for rule in ordered([late, early])] == ["early", "late"]


@pytest.mark.requirement("R-ADV-14")
def test_a_later_rule_computes_with_what_an_earlier_one_proposes() -> None:
    first = parse(rule_text(id="first"))[0]
    seen: list[dict[str, str]] = []

    def judge(case: Case) -> InOrder:
        seen.append(dict(case.earlier))
        return InOrder("seen")

    second = replace(first, id="second", when=None, judge=judge, after=("first",), changes=())
    case = make_case(server=make_server(17))
    advise(case.inventory, case.evidence, ordered([second, first]))
    worse = RuleProof("study", "worse", 0.8, 0.7, 0.9)
    advise(case.inventory, case.evidence, ordered([second, first]), {"first": worse})
    assert seen == [{"statement_timeout": "1h"}, {}]


def test_a_folder_without_rules_and_an_unreadable_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no rule file"):
        load_rules([tmp_path])
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        load_rules([tmp_path])


@pytest.mark.requirement("R-ADV-01")
@pytest.mark.parametrize("rule", shipped_rules(), ids=lambda rule: rule.id)
def test_every_rule_has_every_field(rule: Rule) -> None:
    texts = {one.name: getattr(rule, one.name) for one in fields(rule) if isinstance(getattr(rule, one.name), str)}
    always = {"id", "title", "why", "mechanism", "risk", "verify", "origin", "file", "theme"}
    by_hand = {"apply", "persist", "revert"} if rule.judge is not None else set()
    assert not [name for name in always | by_hand if not texts[name].strip()]
    if any(change.knob or change.commands for change in rule.changes):
        # a change of a knob is applied, persisted and taken back by pgdyno; one of commands says how itself
        assert rule.apply or all(change.knob or change.undo for change in rule.changes)
    assert rule.provenance
    assert all(source.section for source in rule.provenance)


@pytest.mark.requirement("R-ADV-02")
@pytest.mark.parametrize("rule", shipped_rules(), ids=lambda rule: rule.id)
def test_every_figure_has_its_document_and_where_it_was_measured(rule: Rule) -> None:
    for effect in rule.effects:
        document = documents()[effect.source.document]
        assert effect.source.year == document.year
        if effect.low is not None:
            assert effect.source.section
            assert document.platform or document.code == "run-time analysis"


@pytest.mark.requirement("R-ADV-17", "R-ADV-19")
def test_every_rule_has_a_group_and_an_origin() -> None:
    origins = {"document", "documentation", "list post", "run-time analysis"}
    assert {rule.origin for rule in shipped_rules()} <= origins
    assert all(rule.group for rule in shipped_rules())


def test_a_place_without_a_target_reads_as_its_name() -> None:
    assert without_target("raise it to {wal_rate} at once") == "raise it to WAL RATE at once"
    rule = parse(rule_text().replace("statement_timeout is not set", "{what_is_it}"))[0]
    assert title_without_target(rule).startswith("A statement that never ends")


def test_documents_are_of_the_five_sources_and_of_reference() -> None:
    codes = {document.code for document in documents().values()}
    assert {"000", "001", "002", "003", "004"} <= codes
    text = (PROJECT / "src/pgdyno/advisor/data/documents.toml").read_text("utf-8")
    assert set(tomllib.loads(text)) == set(documents())
