"""The generated pages of rules: one a rule, linked to knobs and contradictions, and a stale one is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rule_docs
from knob_docs import rules_of_knob
from pgdyno.advisor.rulebook import contradictions, shipped_rules
from pgdyno.advisor.vocabulary import FACTS, FUNCTIONS
from pgdyno.report.rule_words import scope_text

PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return rule_docs.pages()


def test_every_rule_has_a_page_and_a_line_in_the_index(pages: dict[str, str]) -> None:
    for rule in shipped_rules():
        assert pages[f"{rule.id}.md"].count(f"# {rule.id}\n") == 1
        assert f"[{rule.id}]({rule.id}.md)" in pages["README.md"]


def test_no_place_of_a_target_is_left_in_a_page(pages: dict[str, str]) -> None:
    assert not [name for name, text in pages.items() if re.search(r"(?<!`)\{\w+\}", text)]


def test_the_vocabulary_is_whole(pages: dict[str, str]) -> None:
    for name in FACTS:
        assert f"`{name}`" in pages["vocabulary.md"]
    for name in FUNCTIONS:
        assert f"`{name}(" in pages["vocabulary.md"]


def test_every_contradiction_has_a_heading_to_link_to(pages: dict[str, str]) -> None:
    for name in contradictions():
        assert f"\n## {name}\n" in pages["contradictions.md"]


def test_links_between_pages_lead_somewhere(pages: dict[str, str]) -> None:
    for text in pages.values():
        for link in re.findall(r"\]\(([^)#]+\.md)", text):
            assert link in pages or (PROJECT / "docs" / "reference" / "rules" / link).resolve().exists(), link


def test_a_knob_finds_the_rules_that_concern_it() -> None:
    assert "pg-stat-statements" in rules_of_knob("shared_preload_libraries", shipped_rules())
    assert rules_of_knob("no_such_knob", shipped_rules()) == []


def test_a_scope_reads_as_a_phrase() -> None:
    from pgdyno.advisor.rule import Scope

    assert scope_text(Scope()) == "every target"
    scope = Scope(architectures=("s390x",), from_version=13, to_version=16, below_kernel=(5, 13))
    assert scope_text(scope) == "s390x, PostgreSQL 13 to 16, kernel below 5.13"
    assert scope_text(Scope(from_kernel=(6, 6), from_version=18)) == "PostgreSQL 18 and later, kernel 6.6 and later"
