"""What becomes of a step, and when a plan has nothing more to give: the rules of a staircase. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.verdict import Verdict, Word
from pgdyno.studies.staircase.plan import Plan, Step
from pgdyno.units import digits_text

KEEP, DROP, NULL, SKIPPED, CANDIDATE = "keep", "drop", "null", "skipped", "candidate"
OPEN = "open"
"""Passed over and not refuted, for people or in force already: what comes after it is not held back."""
OUTCOMES = {Word.BETTER: KEEP, Word.WORSE: DROP, Word.EQUIVALENT: NULL, Word.NOT_RESOLVED: NULL}
"""A null step is left out of what follows, as a dropped one: it earned nothing. All of them stay in the record."""


def outcome_of(verdict: Verdict, *, stage: str = "") -> str:
    """Return what becomes of a measured step.

    The stage "sandbox" only chooses: what is better there is a candidate for the large environment, and so is what is
    not resolved but stands beyond the smallest effect of interest, because few short pairs could not decide it.
    """
    if stage != "sandbox":
        return OUTCOMES[verdict.word]
    if verdict.word is Word.BETTER:
        return CANDIDATE
    gain = verdict.interval.ratio if verdict.metric.higher_is_better else 1 / verdict.interval.ratio
    if verdict.word is Word.NOT_RESOLVED and gain > 1 + verdict.smallest_effect:
        return CANDIDATE
    return OUTCOMES[verdict.word]


def why_not(
    step: Step, plan: Plan, outcomes: Mapping[str, str], candidates: Sequence[str] | None, *, by_hand: bool, alone: bool
) -> str:
    """Return why a step is passed over, empty when it is to be run.

    `outcomes` has that of each earlier step of `plan` by its name, OPEN for one that was passed over and not refuted.
    `candidates` names the steps that the sandbox stage proposed, None where no such stage chose. `by_hand` tells
    whether `step` is waited for where it is for people; `alone` that it was asked for by name, so that what it depends
    on is not looked at. The sandbox stage proposes candidates among those that it could run: no steps for people, and
    none of another stage.
    """
    chooses = step.by_hand is None and not step.stage
    if candidates is not None and step.name not in candidates and chooses:
        return "it was no candidate of the sandbox stage"
    missing = missing_of(step, outcomes)
    if missing and not alone:
        return f"it depends on {', '.join(missing)}"
    if step.by_hand is not None and not by_hand:
        is_command = step.manual is None
        return f"it is for people: {'see its commands' if is_command else '--skip-manual skips it'}"
    if step.by_hand is not None and plan.stage == "sandbox":
        return "what people do is tried in the large environment only"
    return ""


def missing_of(step: Step, outcomes: Mapping[str, str]) -> list[str]:
    """Return what a step depends on and was not kept: measured without a gain, or passed over for the same reason."""
    return [name for name in step.after if outcomes.get(name, OPEN) in (DROP, NULL, SKIPPED)]


def stop_reason(outcomes: Sequence[str], stop_after: int | None) -> str:
    """Return why the plan ends before its last step, empty while it goes on.

    `outcomes` are those of the measured steps in their order; `stop_after` how many in a row may show no gain.
    """
    if stop_after is None or len(outcomes) < stop_after:
        return ""
    if any(outcome in (KEEP, CANDIDATE) for outcome in outcomes[-stop_after:]):
        return ""
    which = "the last step" if stop_after == 1 else f"the last {stop_after} steps in a row"
    return f"{which} gained nothing above the noise"


def end_sentence(outcomes: Sequence[str], detectable: float | None, *, stage: str = "", not_measurable: int = 0) -> str:
    """Say what it means when no step was kept: none exceeded the noise floor. Empty when one was, or none was measured.

    `outcomes` are those of all steps, SKIPPED ones included. `detectable` is the smallest effect that six pairs would
    show, as a ratio distance (0.02 is 2 %), None where that is unknown; `stage` is the plan's. `not_measurable` of the
    outcomes are of steps that could not be measured: they say nothing of a gain.
    """
    measured = [outcome for outcome in outcomes if outcome != SKIPPED]
    if not measured or any(outcome in (KEEP, CANDIDATE) for outcome in measured):
        return ""
    if not_measurable:
        lost = f"{not_measurable} of {len(measured)} could not be measured"
        if not_measurable == len(measured):
            return f"nothing was compared, {lost}"
        return f"no step that was measured gave more than the noise, and {lost}"
    floor = "" if detectable is None else f"; six pairs would show {digits_text(100 * detectable)} % here"
    what = "candidate for the large environment" if stage == "sandbox" else "step"
    return f"no {what} of {len(measured)} gave more than the noise{floor}"
