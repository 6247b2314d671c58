"""Settings that were only measured together are told apart by halves: what does nothing among them is not offered."""

from dataclasses import replace

import pytest

from pgdyno.model.configuration import Configuration
from pgdyno.model.shapes import plain
from pgdyno.model.verdict import Word
from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.result import tune_result
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff
from simulated_tune import OPTIONS, run

pytestmark = pytest.mark.usefixtures("kept_asks")
GROUP = {
    "work_mem": "64MB", "effective_cache_size": "8GB", "jit": "off",
    "random_page_cost": "1.1", "hash_mem_multiplier": "3", "io_method": "sync",
}  # fmt: skip
ALONE = replace(OPTIONS, rivals={}, confirm_max=24)


def proposed(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], rest: tuple[str, ...] = ()) -> None:
    part = FrugalWinner(Configuration.of(settings), {}, (), rest)
    monkeypatch.setattr(tune_module, "frugal", lambda *_, **__: part)


def one_of_six(settings):
    return shared_buffers_cliff(settings) * (1.25 if settings.get("jit") == "off" else 1.0)


def one_of_each_half(settings):
    return one_of_six(settings) * (1.25 if settings.get("random_page_cost") == "1.1" else 1.0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_a_group_only_the_setting_that_matters_is_offered(monkeypatch, seed):
    proposed(monkeypatch, {"shared_buffers": "2GB", **GROUP}, tuple(GROUP))
    laboratory = SimulatedLaboratory(one_of_six, cv=0.02, seed=seed)
    tuned, said = run(laboratory, ALONE)
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers", "jit"}
    assert sum("either half of" in line for line in said) >= 2
    result = plain(tune_result(laboratory, tuned, ALONE))
    assert {one["knob"]: one["word"] for one in result["effects"]} == dict.fromkeys(tuned.winner, Word.BETTER)
    assert "joint" not in result
    assert result["unmeasured"] == []
    assert {one["knob"] for one in result["dropped"]} >= set(GROUP) - {"jit"} & set(tuned.found)
    assert all("dropped" in tuned.dropped_because[name] for name in GROUP if name != "jit")


def test_a_group_of_which_both_halves_matter_stays_and_says_so(monkeypatch):
    proposed(monkeypatch, {"shared_buffers": "2GB", **GROUP}, tuple(GROUP))
    tuned, _ = run(SimulatedLaboratory(one_of_each_half, cv=0.02), ALONE)
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers", *GROUP}
    assert any(note.startswith("kept together: ") and "no half of them" in note for note in tuned.notes)
    assert tuned.proof is not None
    assert set(tuned.proof.rest) == set(GROUP)


def test_without_time_a_group_stays_as_it_is(monkeypatch):
    proposed(monkeypatch, {"shared_buffers": "2GB", **GROUP}, tuple(GROUP))
    laboratory = SimulatedLaboratory(one_of_six, cv=0.02)
    tuned, said = run(laboratory, replace(ALONE, budget_s=900.0, confirm_max=6))
    assert laboratory.stopwatch is not None
    assert laboratory.clock_s <= laboratory.stopwatch.end_s
    assert set(tuned.winner) <= {"shared_buffers", *GROUP}
    assert said


def test_what_only_needless_settings_needed_goes_with_them(monkeypatch):
    """No gather without workers: it cannot be left out alone, and stayed for good with what it is for."""
    settings = {"shared_buffers": "2GB", "max_parallel_workers": "1", "max_parallel_workers_per_gather": "0"}
    proposed(monkeypatch, settings)
    tuned, said = run(SimulatedLaboratory(shared_buffers_cliff), ALONE)
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers"}
    assert any("which nothing else needs now; fresh pairs" in line for line in said)
