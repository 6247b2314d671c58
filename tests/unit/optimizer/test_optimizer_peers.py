"""What the benchmark of optimisers says of each search: its answers, and the surfaces that nothing was chosen on."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import optimizer as bench
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.studies.tune import search as tune_search
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.proof import WITHOUT
from search_methods import SCREENING, Surface, dimensions_of, load_surfaces, proved, searched
from search_peers import NEEDS, SEARCHES
from surface_tune import ended, offer

pytestmark = pytest.mark.xdist_group("optimizer-peers")
SURFACES = load_surfaces(Path(bench.__file__).parent / "surfaces")
NOISE_RUNS = TuneOptions().noise_runs
PLAIN = {
    "own": {"choose", "tune", "offered", "unended", "in time"},
    "random": {"random", "random proved"},
    "gp": {"gp", "gp proved"},
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_search_answers_in_each_way_after_each_checkpoint(name):
    surface = SURFACES.get("queue-5")
    search = SEARCHES[name](surface, 12, 1, (6, 12), ())
    assert set(search.returned) == PLAIN[name]
    assert all(set(points) == {6, 12} for points in search.returned.values())
    assert set(NEEDS) == set(SEARCHES) - set(PLAIN)


def test_what_a_tune_offers_is_told_by_the_proof_of_a_tune():
    surface = SURFACES.get("bottleneck-5")
    history, _ = searched(surface, 20, 1, ())
    tuned, laboratory = ended(surface, dimensions_of(surface), history, 1)
    assert tuned.is_offered
    arms = {(trial.spec.block, trial.spec.arm) for trial in laboratory.trials}
    first = min(block for block, arm in arms if arm.startswith(WITHOUT))
    assert len([arm for block, arm in arms if block == first and arm.startswith(WITHOUT)]) == 5
    offered = SEARCHES["own"](surface, 20, 1, (20,), ()).returned["offered"][20]
    assert {name for name, value in offered.items() if value != surface.default[name]} == set(tuned.winner)
    assert len(laboratory.trials) > NOISE_RUNS + 8
    _, short = ended(surface, dimensions_of(surface), history, 1, in_time=True)
    assert len(short.trials) - NOISE_RUNS <= 20 / TuneOptions.SEARCH_SHARE - 20, "a budget bounds the proof"


def test_a_part_that_fails_on_a_surface_is_not_what_a_tune_offers():
    surface = Fails(SURFACES.get("bottleneck-5"))
    history, _ = searched(surface.of, 20, 1, ())
    tuned, _ = ended(surface, dimensions_of(surface.of), history, 1)
    assert not tuned.is_offered
    assert tuned.search.failed


@dataclass
class Level:
    """A surface on which no knob does anything; the third measurement of the default is `odd` times the others."""

    of: Surface
    odd: float = 1.0
    defaults: int = 0

    @property
    def default(self):
        return self.of.default

    def measure(self, point, rng):
        self.defaults += point == self.default
        return 0.02 * float(rng.normal()) + (math.log(self.odd) if self.defaults == 3 else 0.0)


def level_history(surface, trials):
    """Return trials all over a space in which nothing helps, the default anew in every ten."""
    dimensions, rng = dimensions_of(surface.of), np.random.default_rng(4)
    points = [{d.name: d.from_unit(float(rng.random())) for d in dimensions} for _ in range(trials)]
    points = [surface.default if number % 10 == 0 else point for number, point in enumerate(points)]
    return [ScoredPoint(point, 0.02 * float(rng.normal())) for point in points]


def test_what_a_tune_offers_is_measured_with_the_rule_that_ends_a_flat_search():
    """The figures were those of a tune without it, which nobody has."""
    surface = Level(SURFACES.get("queue-5"))
    known, dimensions = level_history(surface, 50), dimensions_of(surface.of)
    real = offer(surface, dimensions, known, 1)
    assert (real.seemed_flat, real.trials) == (True, 14), "a quarter of 50, and the default twice"
    assert real.point == surface.default
    whole = offer(surface, dimensions, known, 1, looks=False)
    assert (whole.seemed_flat, whole.trials) == (False, 50)
    short = offer(surface, dimensions, known[:30], 1)
    assert (short.seemed_flat, short.trials) == (False, 30), "a quarter of 30 tells nothing"


def test_a_search_whose_look_was_revoked_takes_the_trials_that_it_would_have_had(monkeypatch):
    surface = SURFACES.get("cliff-5")
    history, _ = searched(surface, 40, 1, ())
    monkeypatch.setattr(tune_search, "is_flat", lambda *_: True)
    tuned, _ = ended(surface, dimensions_of(surface), history, 1)
    assert tuned.search.seems_flat
    assert tuned.search.used == history
    assert tuned.is_offered


def test_a_run_of_the_default_that_stands_apart_is_asked_again_and_left_out_of_the_noise_floor():
    surface = Level(SURFACES.get("queue-5"), odd=0.5)
    tuned, _ = ended(surface, dimensions_of(surface.of), level_history(surface, 20), 1)
    assert tuned.noise.odd is not None
    assert len(tuned.noise.runs) == NOISE_RUNS
    assert tuned.search.noise_sd < 0.1, "it was as large as the outlier"


@dataclass
class Fails:
    """A surface of which all but the default fails from now on."""

    of: Surface

    @property
    def default(self):
        return self.of.default

    def measure(self, point, rng):
        return self.of.measure(point, rng) if point == self.of.default else None


def test_pairs_prove_a_gain_and_nothing_else():
    surface = SURFACES.get("cliff-5")
    better = {**surface.default, "knob00": 2**17}
    assert proved(surface, better, 1, 20) == better
    kept = [proved(surface, {**surface.default, "knob06": "on"}, seed, 20) for seed in range(10)]
    assert kept.count(surface.default) >= 9
    assert SCREENING.max_pairs == 24


@pytest.mark.parametrize("name", [*SURFACES.PROBLEMS, *SURFACES.UNKNOWN])
def test_the_default_of_a_surface_runs_and_random_points_differ_from_it(name):
    surface = SURFACES.get(name)
    value, failed = surface.true(surface.default)
    assert not failed
    rng = np.random.default_rng(0)
    others = [surface.true(surface.point(rng.random(len(surface.kinds))))[0] for _ in range(50)]
    assert statistics.stdev(others) > 0
    assert np.isfinite([value, *others]).all()


def test_members_of_unknown_families_are_named_apart_from_those_of_known_ones():
    folder = Path(bench.__file__).parent / "surfaces"
    known, unknown = (set(bench.names_in(folder, ["21", "22"], [], flag)) for flag in (False, True))
    assert {"cliff-21", "cliff-22"} <= known
    assert {"ridge-21", "small-22"} <= unknown
    assert not known & unknown


def test_of_the_answers_that_change_a_knob_the_changes_are_counted() -> None:
    job = bench.Job(Path(), "small-1", "own", 1, "default")
    scores = [
        bench.Score(job, "offered", (0.0,) * 3, (False,) * 3, changed, 0, 0.0) for changed in ((0, 4, 0), (3, 5, 0))
    ]
    assert bench.changed_text(scores).split() == ["3.0", "4.5", "0.0"]


def test_a_run_that_was_ended_goes_on_from_what_its_file_has(tmp_path) -> None:
    file = tmp_path / "kept.jsonl"
    jobs = [bench.Job(tmp_path, "small-1", "own", seed, "default", "ask.CAUTION", 2.0) for seed in (1, 2)]
    scores = [
        bench.Score(
            job, "offered", (0.5, 0.25, 0.1), (False,) * 3, (3, 4, 5), 1, 0.1, (0, 2, 3), (90, 80, 70), (0, 1, 0)
        )
        for job in jobs
    ]
    assert bench.kept(file) == {}
    bench.keep(file, scores[:1])
    bench.keep(file, scores[1:])
    assert bench.kept(file) == {job: [score] for job, score in zip(jobs, scores, strict=True)}
    file.write_text(file.read_text()[:-40])
    assert list(bench.kept(file)) == jobs[:1], "of the job whose line a kill cut short nothing is known"


def test_what_a_tune_offers_is_told_with_its_runs_and_the_settings_that_have_one_effect(capsys) -> None:
    job = bench.Job(Path(), "small-1", "own", 1, "default")
    both = ((3, 0, 4), (2, 0, 1), (90, 80, 70), (1, 0, 0)), ((5, 1, 0), (3, 0, 0), (110, 80, 90), (0, 1, 0))
    bench.print_proofs("offered", [bench.Score(job, "offered", (0.0,) * 3, (), n, 0, 0.0, *more) for n, *more in both])
    rows = [line.split()[-3:] for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["4.0", "1.0", "4.0"],
        ["2.5", "0.0", "1.0"],
        ["0.5", "1.0", "0.0"],
        ["100.0", "80.0", "80.0"],
        ["2", "1", "1"],
        ["0", "0", "0"],
    ]


def test_how_many_searches_ended_as_flat_is_told_with_the_latest_trial(capsys) -> None:
    job = bench.Job(Path(), "small-1", "own", 1, "default")
    each = ((20, 30, 14), (20, 12, 13), (20, 30, 50))
    zeros = (0, 0, 0)
    scores = [bench.Score(job, "offered", (0.0,) * 3, (), zeros, 0, 0.0, zeros, zeros, zeros, one) for one in each]
    bench.print_proofs("offered", scores)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("ended as flat"))
    assert line.split("offered")[1].split() == ["0", "1", "by", "12", "2", "by", "14"]
