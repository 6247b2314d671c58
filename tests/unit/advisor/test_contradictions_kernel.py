"""The contradictions of the sources about the kernel: both sides, and a rule that decides."""

from __future__ import annotations

import pytest

from pgdyno.advisor.rulebook import contradictions, documents, shipped_rules


@pytest.mark.requirement("CON-07", "CON-13", "CON-14", "CON-15", "CON-16", "CON-17", "CON-26", "CON-27")
@pytest.mark.parametrize("name", ["CON-07", "CON-13", "CON-14", "CON-15", "CON-16", "CON-17", "CON-26", "CON-27"])
def test_both_sides_are_there_and_a_rule_decides(name):
    entry = contradictions()[name]
    rule = next(rule for rule in shipped_rules() if rule.id == entry.decided_by)
    assert name in rule.contradictions
    assert entry.first.text != entry.second.text
    assert {entry.first.document, entry.second.document} <= set(documents())
