"""A staircase on a machine that others use: an answer that is less certain, and says so; never none."""

from __future__ import annotations

from dataclasses import replace

from test_staircase_by_hand import BY_HAND

from pgdyno.model.results.staircase import StaircaseResult
from pgdyno.model.study import StudyKind
from pgdyno.report.drawing.markdown import render
from pgdyno.report.study_record import StudyRecord
from pgdyno.store.codec import result_from_json
from pgdyno.studies.staircase.page import staircase_page
from pgdyno.studies.staircase.run import PROOF_BLOCKS
from staircase_climbing import climb, options

BUSY = {"disturbed": 1.0, "shared": True}


def test_a_staircase_beside_others_answers_and_its_headline_says_so() -> None:
    found, told, laboratory, _ = climb(options(min_pairs=8), **BUSY)
    assert [step.step.name for step in found.kept] == ["good", "better"]
    assert told["verdict"]["word"] == "better"
    assert told["exit_code"] == 0
    told.pop("exit_code")
    result = result_from_json(StudyKind.STAIRCASE, told)
    assert isinstance(result, StaircaseResult)
    assert result.beside_others is not None
    study = replace(laboratory.study, kind=StudyKind.STAIRCASE, result=result)
    text = render(staircase_page(StudyRecord(study, tuple(laboratory.store.kept))))
    runs, of = result.beside_others.runs, result.beside_others.of
    assert f"less certain, as others used the machine in {runs} of {of} runs" in text


def test_each_step_names_the_metric_that_would_tell_more() -> None:
    found, told, _, _ = climb(options(min_pairs=8), drowned=0.3, **BUSY)
    steps = [climb for climb in found.climbs if climb.comparison is not None]
    assert steps
    assert all("--metric server_cpu_ms_per_tx judges by it" in climb.why for climb in steps)
    assert told["beside_others"]["runs"]


def test_a_step_by_hand_is_not_judged_by_runs_beside_others() -> None:
    """An hour lies between its sides: whoever came meanwhile would look like its effect."""
    state = iter(["off\n", "on\n"])
    found, _, _, _ = climb(options(BY_HAND), ask=lambda _: True, verify=lambda _: next(state), **BUSY)
    (step,) = [climb for climb in found.climbs if climb.step.name == "smt"]
    assert (step.outcome, step.comparison) == ("drop", None)
    assert "could be measured in only 0 of 6 runs: made beside others, and not interleaved" in step.why
    assert found.outcomes["good"] == "keep", "the next step is interleaved"


def test_a_proof_that_the_machine_cuts_short_is_judged_by_its_complete_blocks() -> None:
    _, _, quiet, _ = climb(options(min_pairs=8))
    before = sum(trial.spec.block < PROOF_BLOCKS for trial in quiet.store.kept)
    arms = 4  # baseline, all kept, and each of the two kept steps left out
    found, told, _, _ = climb(options(min_pairs=8), disturbed=lambda number, _: number > before + 3 * arms)
    assert found.proof is not None
    assert len(found.proof.blocks.complete) == 3
    assert told["verdict"]["pairs"] == 3
    assert any("blocks could not be completed" in sentence for sentence in told["sentences"])
