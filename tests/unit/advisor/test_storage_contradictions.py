"""The contradictions on storage: both statements are there, and a shipped rule decides each of them."""

from __future__ import annotations

import pytest

from pgdyno.advisor.rulebook import contradictions, documents, shipped_rules

DECIDED = {
    "CON-06": "read-ahead",
    "CON-10": "wal-direct-io",
    "CON-11": "double-caching",
    "CON-24": "wal-placement",
    "CON-25": "io-scheduler",
    "CON-28": "double-caching",
    "CON-29": "disk-type",
    "CON-30": "hot-tables",
    "CON-32": "filesystem",
    "CON-33": "sector-size",
    "CON-45": "device-queueing",
}


@pytest.mark.requirement(
    "CON-06", "CON-10", "CON-11", "CON-24", "CON-25", "CON-28", "CON-29", "CON-30", "CON-32", "CON-33", "CON-45"
)
@pytest.mark.parametrize(("name", "rule"), DECIDED.items())
def test_both_statements_and_the_rule_that_decides(name, rule):
    found = contradictions()[name]
    assert found.decided_by == rule
    assert found.first.text != found.second.text
    assert {found.first.document, found.second.document} <= set(documents())
    decider = next(one for one in shipped_rules() if one.id == rule)
    assert name in decider.contradictions
