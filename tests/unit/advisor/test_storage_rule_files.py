"""Every rule on storage says how it is applied, kept, checked and taken back, and proposes nothing unsafe."""

from __future__ import annotations

import pytest

from advisor_case import finding_of, make_case
from pgdyno.advisor.case import Case
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import Evidence
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer
from pgdyno.model.inventory import HostInventory, Inventory
from storage_case import STORAGE_THEMES

RULES = [rule for rule in shipped_rules() if rule.theme in STORAGE_THEMES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_field_is_filled(rule):
    for field in ("mechanism", "risk", "apply", "persist", "verify", "revert", "provenance", "requirements"):
        assert getattr(rule, field), field
    assert "{" not in rule.title, "a title is shown as well where nothing was found and nothing is filled in"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_of_an_unknown_host_nothing_is_said(rule):
    nothing = Case(Inventory(HostInventory(), Unknown("it could not be reached")), Evidence())
    assert finding_of(rule.id, nothing).answer in (Answer.UNKNOWN, Answer.NOT_APPLICABLE)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_bare_host_is_judged_without_an_exception(rule):
    assert finding_of(rule.id, make_case()).answer in Answer
