"""Print how near to the optimum a search ends: pgdyno's optimiser beside random search and Optuna's TPE.

    python bench/optimizer.py [--surfaces DIR] [--only NAME,NAME] [--seeds 20]
                              [--methods choose,tune,random,tpe] [--starts default,advice] [--jobs 2]

Normalised regret is (best - returned) / (best - default) of the true performance, without noise, of the configuration
that a method would return: 0 is the optimum, 1 the default, above 1 is worse than the default. `worse` is the share of
seeds that end below the default. `choose` is what the optimiser's judgement of the search's own trials returns, `tune`
what a tune takes: its candidate if fresh pairs call it better (up to 24 pairs beside the trials). Each line names its
start: the default alone, or the surface's rules of thumb after it (only where it has some). DIR holds a
`surfaces.py` of the interface that `surfaces/surfaces.py` describes;
without it the project's own synthetic surfaces are used. docs/explanation/optimizer.md discusses the figures.
"""

from __future__ import annotations

import argparse
import importlib.util
import os

# Before numpy is loaded: processes run in parallel, and threads of linear algebra would fight with them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from search_methods import METHODS, Surface, Surfaces, load_surfaces

CHECKPOINTS = (20, 30, 50)
OWN_SURFACES = Path(__file__).resolve().parent / "surfaces"
FLAT = 1e-6


@dataclass(frozen=True, slots=True)
class Job:
    """One search to run."""

    folder: Path
    surface: str
    method: str
    seed: int
    start: str

    @property
    def label(self) -> str:
        """Return how a line names the method and its start."""
        return f"{self.method} from {self.start}"


@dataclass(frozen=True, slots=True)
class Score:
    """How a search ended: regret and whether it is worse than the default, at each checkpoint."""

    job: Job
    regret: tuple[float, ...]
    worse: tuple[bool, ...]
    failed: int
    cpu_s: float


@lru_cache(maxsize=4)
def surfaces(folder: Path) -> Surfaces:
    """Return the surfaces of a folder, loaded once per process."""
    return load_surfaces(folder)


def run(job: Job) -> Score:
    """Run a search and score what it returns."""
    surface = surfaces(job.folder).get(job.surface)
    advice = surface.advice if job.start == "advice" else ()
    search = METHODS[job.method](surface, max(CHECKPOINTS), job.seed, CHECKPOINTS, advice)
    default = surface.true(surface.default)[0]
    ends = [surface.true(dict(search.returned[trial]))[0] for trial in CHECKPOINTS]
    return Score(
        job,
        regret=tuple(regret(surface, default, end) for end in ends),
        worse=tuple(end < default - 1e-9 for end in ends),
        failed=search.failed,
        cpu_s=search.cpu_s,
    )


def regret(surface: Surface, default: float, end: float) -> float:
    """Return the normalised regret in performance; on a flat surface the loss against the default in per cent."""
    best = surface.best
    if best - default < FLAT:
        return 100 * (1 - math.exp(end - default))
    return (math.exp(best) - math.exp(end)) / (math.exp(best) - math.exp(default))


def print_surface(name: str, scores: Sequence[Score], flat: bool) -> None:
    """Print the lines of one surface, a line per method."""
    for method in dict.fromkeys(score.job.label for score in scores):
        mine = [score for score in scores if score.job.label == method]
        means = "".join(f"{statistics.fmean(s.regret[i] for s in mine):8.2f}" for i in range(len(CHECKPOINTS)))
        last = [score.regret[-1] for score in mine]
        deviation = statistics.stdev(last) if len(last) > 1 else 0.0
        worse = "".join(f"{statistics.fmean(s.worse[i] for s in mine):7.0%}" for i in range(len(CHECKPOINTS)))
        failed = statistics.fmean(score.failed for score in mine)
        cpu_ms = 1e3 * statistics.fmean(score.cpu_s for score in mine)
        note = "  loss in %: nothing is better than the default here" if flat else ""
        print(f"{name:16}{method:20}{means}{deviation:8.2f} {worse}{failed:8.1f}{cpu_ms:8.0f}{note}", flush=True)


def print_means(scores: Sequence[Score], names: Sequence[str]) -> None:
    """Print the mean over surfaces, with the standard error that the choice of seeds leaves in it."""
    for method in dict.fromkeys(score.job.label for score in scores):
        mine = [score for score in scores if score.job.label == method and score.job.surface in names]
        ran = [name for name in names if any(score.job.surface == name for score in mine)]
        cells = []
        for i in range(len(CHECKPOINTS)):
            groups = [[s.regret[i] for s in mine if s.job.surface == name] for name in ran]
            error = math.sqrt(sum(statistics.variance(g) / len(g) for g in groups if len(g) > 1)) / len(groups)
            cells.append(f"{statistics.fmean(map(statistics.fmean, groups)):.3f} +- {error:.3f}")
        print(f"{'mean of ' + str(len(ran)):16}{method:20}" + "   ".join(cells), flush=True)


def main() -> None:
    """Run all searches in parallel and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surfaces", type=Path, default=OWN_SURFACES)
    parser.add_argument("--only", default="", help="names of surfaces, separated by commas")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--starts", default="default,advice")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    folder = args.surfaces.resolve()
    names = [name for name in args.only.split(",") if name] or list(surfaces(folder).PROBLEMS)
    methods = [name for name in args.methods.split(",") if name in METHODS]
    if "tpe" in methods and importlib.util.find_spec("optuna") is None:
        methods.remove("tpe")
        print("tpe is left out: optuna is not installed (pip install 'pgdyno[bench]')")
    heads = "".join(f"{'@' + str(trial):>8}" for trial in CHECKPOINTS)
    shares = "".join(f"{'@' + str(trial):>7}" for trial in CHECKPOINTS)
    print(f"{'':36}{'mean regret':>24}{'':9}{'worse than default':>21}")
    print(f"{'surface':16}{'method and start':20}{heads}{'sd':>8} {shares}{'failed':>8}{'ms/ask':>8}")
    scores: list[Score] = []
    steep: list[str] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for name in names:
            surface = surfaces(folder).get(name)
            flat = surface.best - surface.true(surface.default)[0] < FLAT
            starts = [start for start in args.starts.split(",") if start == "default" or surface.advice]
            jobs = [
                Job(folder, name, m, seed, start) for start in starts for m in methods for seed in range(args.seeds)
            ]
            scored = list(pool.map(run, jobs))
            print_surface(name, scored, flat)
            scores += scored
            steep += [] if flat else [name]
    if steep:
        print_means(scores, steep)


if __name__ == "__main__":
    main()
