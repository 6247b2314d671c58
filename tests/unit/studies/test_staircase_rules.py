"""What becomes of a step, and when a plan ends: the rules alone."""

from dataclasses import replace

import pytest

from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.studies.staircase.plan import Manual, Plan, Step
from pgdyno.studies.staircase.rules import end_sentence, outcome_of, stop_reason, why_not


def verdict(word, ratio, metric=Metric.THROUGHPUT):
    return Verdict(word, Interval(ratio, ratio / 1.1, ratio * 1.1, 0.95), 8, metric, 0.02)


@pytest.mark.requirement("R-EXP-16")
@pytest.mark.parametrize(
    ("word", "large", "sandbox"),
    [
        (Word.BETTER, "keep", "candidate"),
        (Word.WORSE, "drop", "drop"),
        (Word.EQUIVALENT, "null", "null"),
        (Word.NOT_RESOLVED, "null", "candidate"),
    ],
)
def test_a_word_becomes_an_outcome(word, large, sandbox):
    assert outcome_of(verdict(word, 1.05)) == large
    assert outcome_of(verdict(word, 1.05), stage="sandbox") == sandbox


def test_what_is_not_resolved_around_nothing_is_no_candidate():
    assert outcome_of(verdict(Word.NOT_RESOLVED, 1.01), stage="sandbox") == "null"
    assert outcome_of(verdict(Word.NOT_RESOLVED, 0.9, Metric.LATENCY_P99), stage="sandbox") == "candidate"
    assert outcome_of(verdict(Word.NOT_RESOLVED, 1.1, Metric.LATENCY_P99), stage="sandbox") == "null"


@pytest.mark.requirement("R-EXP-19")
@pytest.mark.parametrize(
    ("outcomes", "ends"),
    [
        ([], False),
        (["null"], False),
        (["null", "drop"], True),
        (["keep", "null"], False),
        (["keep", "null", "null"], True),
        (["null", "null", "keep"], False),
    ],
)
def test_only_the_last_steps_in_a_row_end_a_plan(outcomes, ends):
    assert bool(stop_reason(outcomes, 2)) is ends
    assert stop_reason(outcomes, None) == ""
    assert stop_reason(["null"], 1).startswith("the last step gained")


def test_the_end_says_that_nothing_exceeded_the_noise_and_how_much_would_have():
    assert end_sentence(["null", "drop", "skipped"], 0.03) == (
        "no step of 2 gave more than the noise; six pairs would show 3 % here"
    )
    assert end_sentence(["null"], None, stage="sandbox").startswith("no candidate for the large environment of 1")
    assert end_sentence(["keep", "null"], 0.03) == ""
    assert end_sentence(["skipped"], 0.03) == ""


def test_a_step_that_could_not_be_measured_is_not_said_to_have_gained_nothing():
    assert end_sentence(["drop", "skipped"], 0.03, not_measurable=1) == (
        "nothing was compared, 1 of 1 could not be measured"
    )
    assert end_sentence(["drop", "null"], 0.03, not_measurable=1) == (
        "no step that was measured gave more than the noise, and 1 of 2 could not be measured"
    )


def test_why_a_step_is_passed_over():
    plan, step = Plan("", "", "", (), stage="sandbox"), Step("b", after=("a",), settings={"jit": "off"})
    why = {"by_hand": True, "alone": False}
    assert why_not(step, plan, {"a": "drop"}, None, **why) == "it depends on a"
    assert why_not(step, plan, {"a": "candidate"}, None, **why) == ""
    assert why_not(step, plan, {"a": "drop"}, None, by_hand=True, alone=True) == ""
    assert "no candidate" in why_not(step, plan, {"a": "keep"}, ("a",), **why)
    assert why_not(step, plan, {"a": "null"}, None, **why) == why_not(step, plan, {"a": "skipped"}, None, **why) != ""
    assert why_not(step, plan, {"a": "open"}, None, **why) == why_not(step, plan, {}, None, **why) == ""
    large = Plan("", "", "", (), stage="large")
    assert why_not(Step("h", manual=Manual(("do it",))), large, {}, ("a",), **why) == "", "people wait for this stage"
    assert why_not(Step("l", stage="large", settings={"jit": "off"}), large, {}, ("a",), **why) == ""
    hand = Step("h", commands=("do it",))
    assert "large environment only" in why_not(hand, plan, {}, None, **why)
    assert "for people: see its commands" in why_not(hand, plan, {}, None, by_hand=False, alone=False)
    told = replace(hand, commands=(), manual=Manual(("pull the plug",)))
    assert "--skip-manual" in why_not(told, plan, {}, None, by_hand=False, alone=False), "it has no commands to see"
