"""A staircase that is stopped on its way: what it had finished is kept, and its page shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import make_host, make_server
from pgdyno.model.facts import SettingFact
from pgdyno.model.inventory import Inventory
from pgdyno.model.results.staircase import StaircaseResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.report.drawing.markdown import render
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.proofs import proofs_of, studies_on
from pgdyno.studies.reports import build_report
from pgdyno.studies.staircase.by_hand import GatedRuns, gate_of
from pgdyno.studies.staircase.result import unfinished_result
from pgdyno.studies.staircase.run import Staircase
from simulated_laboratory import SimulatedLaboratory
from staircase_climbing import options, surface
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
