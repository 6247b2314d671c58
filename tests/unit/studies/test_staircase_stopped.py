"""A staircase that is stopped on its way: what it had finished is kept, and its page shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import staircase_climbing
from advisor_case import make_host, make_server
from pgdyno.model.facts import SettingFact
from pgdyno.model.inventory import Inventory
from pgdyno.model.results.staircase import StaircaseResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Metric
from pgdyno.report.drawing.markdown import render
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.proofs import proofs_of, studies_on
from pgdyno.studies.reports import build_report
from pgdyno.studies.staircase.by_hand import GatedRuns, gate_of
from pgdyno.studies.staircase.result import unfinished_result
from pgdyno.studies.staircase.run import PROOF_BLOCKS, Staircase
from simulated_laboratory import SimulatedLaboratory
from staircase_climbing import climb, options, surface, thin_laboratory
from study_example import make_study


def stopped(after: int) -> list[StaircaseResult]:
    """Return what was kept of a staircase, step by step, that a signal ended in this trial."""
    wanted, laboratory = options(min_pairs=8), SimulatedLaboratory(surface, cv=0.01, kill_after=after)
    gate = gate_of(wanted.read_plan(), laboratory.study, (), ask=lambda _: None, verify=None, announce=print,
                   resumed=False)  # fmt: skip
    kept: list[StaircaseResult] = []
    staircase = Staircase(
        GatedRuns(laboratory, gate), laboratory.facts, wanted, lambda _: None,
        lambda found: kept.append(unfinished_result(laboratory, found, wanted)),
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        staircase.climb()
    return kept


def test_the_page_of_a_stopped_staircase_shows_its_finished_steps(tmp_path) -> None:
    kept = stopped(after=50)
    assert 1 <= len(kept) < 5
    assert kept[-1].steps[0].step == "good"
    facts = {"server": {"data_directory": "/data"}, "host": {"architecture": "x86_64", "ram_bytes": 128 << 30}}
    study: Study = replace(make_study(StudyKind.STAIRCASE, "staircase-1"), result=kept[-1], facts=facts)
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(replace(study, state=StudyState.INTERRUPTED))
        report = build_report(store, study.id)
        place = SettingFact("data_directory", "/data", None, "string", "postmaster", "override")
        here = Inventory(make_host(), make_server(extra={"data_directory": place}))
        assert len(studies_on(store, here)) == 1
        assert proofs_of(store, here) == {}  # what never came to its end proves no rule
    assert report.title.startswith(f"Not finished: the staircase is interrupted, {len(kept)} of 5 steps finished")
    assert "good" in render(report)
    assert "change" not in {section.id for section in report.sections}  # nothing to put in force yet


def failing_in_proof(settings):
    """Return a laboratory class whose loads fail with these settings in the proof, and never before."""

    class Failing(SimulatedLaboratory):
        def run(self, spec, **more):
            self._fails = lambda tried: spec.block >= PROOF_BLOCKS and dict(tried) == settings
            return super().run(spec, **more)

    return Failing


@pytest.mark.parametrize("settings", [{}, {"work_mem": "64MB", "jit": "off"}])
def test_a_proof_that_cannot_be_measured_leaves_what_the_steps_have_shown(monkeypatch, settings) -> None:
    monkeypatch.setattr(staircase_climbing, "SimulatedLaboratory", failing_in_proof(settings))
    found, result, _, said = climb(options(min_pairs=8))
    assert [step.step.name for step in found.kept] == ["good", "better"]
    assert found.proof is None
    arm = "all kept" if settings else "baseline"
    text = f"the kept steps together are not proved: arm {arm} cannot be measured: failed: did not start"
    assert text in said
    assert text in result["sentences"]
    assert result["verdict"] is None


def test_a_kept_step_that_cannot_be_left_out_is_named_and_the_proof_does_without(monkeypatch) -> None:
    monkeypatch.setattr(staircase_climbing, "SimulatedLaboratory", failing_in_proof({"jit": "off"}))
    found, result, _, _ = climb(options(min_pairs=8))
    assert result["verdict"]["word"] == "better"
    assert set(found.proof.effects) == {"better"}
    assert "without good could not be measured, and the proof does without: did not start" in result["sentences"]


def test_a_proof_in_which_no_step_could_be_left_out_gives_its_gain_to_none_of_them(monkeypatch) -> None:
    monkeypatch.setattr(
        staircase_climbing, "SimulatedLaboratory", thin_laboratory(lambda trial: trial.spec.role is Role.EFFECT)
    )
    found, result, _, _ = climb(options(min_pairs=8, metric=Metric.LATENCY_P99))
    assert result["verdict"]["word"] == "better"
    assert found.proof.effects == {}
