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


@pytest.mark.requirement(*DECIDED)
@pytest.mark.parametrize(("name", "rule"), DECIDED.items())
def test_both_statements_and_the_rule_that_decides(name, rule):
    found = contradictions()[name]
    assert found.decided_by == rule
    assert found.first.text != found.second.text
    assert {found.first.document, found.second.document} <= set(documents())
    decider = next(one for one in shipped_rules() if one.id == rule)
    assert name in decider.contradictions
