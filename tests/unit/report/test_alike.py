"""Sentences that differ in numbers alone are one sentence with a count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.finding import Change, ChangeKind
from pgdyno.probes.evidence.own_work import OwnStudy, _named
from pgdyno.report.advice.words import change_text
from pgdyno.report.wording import told_once


def test_numbers_are_counted_and_words_are_kept_apart():
    told = told_once(["CPU was 45 %", "fell by 80% about 2.5 s", "CPU was 98 %", "CPU was 1,017.5 %", "steal was 9 %"])
    assert told == ("CPU was 45 % (and 2 more like it)", "fell by 80% about 2.5 s", "steal was 9 %")


@given(st.lists(st.text("ab1", max_size=3)))
def test_every_text_is_counted_once(texts):
    told = told_once(texts)
    assert len(set(told)) == len(told)
    assert sum(int(t.split("(and ")[1].split()[0]) + 1 if "(and " in t else 1 for t in told) == len(texts)


def test_who_disturbed_a_run_makes_no_other_reason() -> None:
    """Of nine disturbed runs the same was told seven times, since each had met others."""
    base = "foreign CPU was {} % of a core, above the bound of 15 %"
    texts = [
        f"{base.format(181)}: python (process 12783) 40 %, python (process 14231) 19 %",
        f"{base.format(182)}: addr2line (process 19805) 28 %",
        f"{base.format(169)}: pgdyno (process 10406) 16 %, a b (process 3) 1.5 %, c-d (process 4) 1 %",
        f"{base.format(170)}: python (process 7) 28 %; throughput rose by 320 %",
        base.format(99),
    ]
    told = told_once(texts)
    assert told == (f"{texts[0]} (and 2 more like it)", texts[3], texts[4])


@pytest.mark.parametrize(
    ("commands", "said"),
    [((), "by hand"), (("a",), "a"), (("a", "b"), "a (and 1 more)"), (("a",) * 3, "a (and 2 more)")],
)
def test_a_change_of_commands_is_the_first_of_them(commands: tuple[str, ...], said: str) -> None:
    assert change_text(Change(ChangeKind.DDL, commands=commands)) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "study s1"), (3, "studies s1, s2, s3"), (5, "studies s3, s4, s5 and 2 more")],
)
def test_the_latest_studies_are_named(count: int, said: str) -> None:
    assert _named([OwnStudy(f"s{number}", 0.0, 1.0) for number in range(1, count + 1)]) == said
