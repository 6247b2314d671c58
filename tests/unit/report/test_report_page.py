"""A report as one HTML page: it asks nobody, obeys nobody, and stays small; and what every format leaves out."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import study_example as example
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.figure import Table
from pgdyno.report.drawing import html, markdown
from pgdyno.report.sections import FactList, Prose, Report, Section, Snippet, TableBlock, Tone
from report_example import built

MOST_BYTES = 3_000_000
OBEYED = "\x1b]0;title\x07\u202e"
HOSTILE = '</script><script>alert(1)</script> & "quoted" {{ 7 * 7 }} `tick` | pipe'


@pytest.fixture(scope="session")
def tune(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return built(tmp_path_factory.mktemp("tune"), example.add_tune)


class References(HTMLParser):
    """Collects everything that a page could load or follow, and every inline style or handler."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            if (name in ("src", "href", "action", "srcset", "data") and not (value or "").startswith("#")) or (
                name == "style" or name.startswith("on")
            ):
                self.found.append(f"{tag} {name}={value}")


def test_the_page_refers_to_nothing_outside(tune: Report) -> None:
    page = html.render(tune)
    parser = References()
    parser.feed(page)
    assert parser.found == []
    ours = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    for name in html.SCRIPTS:
        if name.startswith("vendor/"):
            ours = ours.replace(html._static(name), "")
    assert "http://" not in ours
    assert "https://" not in ours


def test_the_policy_allows_only_what_is_in_the_page(tune: Report) -> None:
    page = html.render(tune)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    content = policy[1].replace("&#39;", "'")
    assert content.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in content
    assert content.count("sha256-") == len(html.SCRIPTS) + len(html.STYLES)


def test_the_page_carries_the_licences(tune: Report) -> None:
    page = html.render(tune)
    assert "Permission is hereby granted, free of charge" in page
    assert "Apache License" in page
    assert "Redistribution and use in source and binary forms" in page


def test_hostile_text_stays_text(tune: Report) -> None:
    figures = next(one for one in tune.sections if one.id == "search")
    report = replace(
        tune,
        title=HOSTILE,
        lead=HOSTILE,
        sections=(
            figures,
            Section("x", HOSTILE, HOSTILE, (Prose((HOSTILE,)), FactList(((HOSTILE, HOSTILE),)), Snippet("s", HOSTILE))),
        ),
    )
    parser = References()
    page = html.render(report)
    parser.feed(page)
    assert parser.scripts == len(html.SCRIPTS) + 1
    assert "<script>alert" not in page
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", page)[0]
    assert "<script>" not in re.sub(r"```.*?```", "", markdown.render(report), flags=re.DOTALL).replace(
        "\\<script\\>", ""
    )


def test_no_file_of_a_report_holds_what_a_terminal_would_obey(tune: Report) -> None:
    words = f"role a{OBEYED}b"
    blocks = (
        Prose((words,)),
        FactList(((words, words),)),
        Snippet("s", words),
        TableBlock(Table((words,), ((words,),)), words),
    )
    report = replace(tune, title=words, lead=words, sections=(Section("x", words, words, blocks),))
    for written in (html.render(report), markdown.render(report)):
        assert "role a" in written
        assert not [one for one in OBEYED[:1] + OBEYED[-2:] if one in written]


def test_a_long_study_stays_below_three_megabytes(tmp_path: Path) -> None:
    report = built(tmp_path, lambda store: example.add_bench(store, seconds=900))
    assert len(html.render(report).encode()) < MOST_BYTES


def test_a_tune_stays_below_three_megabytes(tune: Report) -> None:
    assert len(html.render(tune).encode()) < MOST_BYTES


def test_an_unwritable_path_is_a_clear_error(tune: Report, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnsuitable) as caught:
        html.write_html(tune, tmp_path / "none" / "report.html")
    assert "No such file or directory" in caught.value.message


def test_a_number_stays_with_its_unit_on_the_page() -> None:
    section = Section("a", "A", "Why?", (Prose(("Busy for 85 % of 3.5 s, 512 MB and 3 simple steps.",)),))
    page = html.render(Report("s", "tune", "A", "", Tone.NEUTRAL, "", "", (), (section,)))
    assert "85\u00a0% of 3.5\u00a0s, 512\u00a0MB and 3 simple steps" in page
