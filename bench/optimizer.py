"""Print how near to the optimum a search ends: pgdyno's optimiser beside random search and Optuna's TPE.

    python bench/optimizer.py [--surfaces DIR ...] [--only NAME,NAME] [--members 1,2] [--seeds 20]
                              [--methods choose,tune,random,tpe] [--starts default,advice] [--jobs 2]
                              [--vary ask.CAUTION=1,2,3]

Normalised regret is (best - returned) / (best - default) of the true performance, without noise, of the configuration
that a method would return: 0 is the optimum, 1 the default, above 1 is worse than the default. `worse` is the share of
seeds that end below the default. `choose` is what the optimiser's judgement of the search's own trials returns, `tune`
what a tune takes: its candidate if fresh pairs call it better (up to 24 pairs beside the trials). Each line names its
start: the default alone, or the surface's rules of thumb after it (only where it has some). Trial by trial, all methods
meet the same noise. Means are over families of surfaces, which `steps-1` and `steps-2` share, with 95 % intervals over
families; the lines below compare each method with the first one, family by family.

DIR holds a `surfaces.py` of the interface that `surfaces/surfaces.py` describes, and may be given again; without it the
project's own synthetic surfaces are used. `--members` takes other members of their families. `--vary` runs `tune` with
a constant of a module of the optimiser at each value, and says for each family what the value that is best on all
others comes to there: nothing is told of a family that it was chosen on. docs/explanation/optimizer.md discusses the
figures.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os

# Before numpy is loaded: processes run in parallel, and threads of linear algebra would fight with them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.stats import t as student

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
    constant: str = ""
    value: float = 0.0
    """A constant of the optimiser, as `ask.CAUTION`, and its value here."""

    @property
    def label(self) -> str:
        """Return how a line names the method and its start."""
        return f"{self.method} {self.value:g}" if self.constant else f"{self.method} from {self.start}"

    @property
    def family(self) -> str:
        """Return the family of the surface: its name without the number."""
        name, _, number = self.surface.rpartition("-")
        return name if number.isdecimal() else self.surface


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
    with set_to(job.constant, job.value):
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


@contextmanager
def set_to(constant: str, value: float) -> Iterator[None]:
    """Give a constant of the optimiser, as `ask.CAUTION`, another value for a while; the empty one does nothing."""
    if not constant:
        yield
        return
    place, _, name = constant.partition(".")
    module = importlib.import_module(f"pgdyno.optimizer.{place}")
    before = getattr(module, name)
    setattr(module, name, type(before)(value))
    try:
        yield
    finally:
        setattr(module, name, before)


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


def by_family(scores: Sequence[Score]) -> dict[str, list[float]]:
    """Return the mean regret at each checkpoint of each family: members weigh alike, and so do their seeds."""
    found: dict[str, list[float]] = {}
    for family in dict.fromkeys(score.job.family for score in scores):
        mine = [score for score in scores if score.job.family == family]
        members = [[s.regret for s in mine if s.job.surface == name] for name in {s.job.surface for s in mine}]
        found[family] = [statistics.fmean(statistics.fmean(r[i] for r in one) for one in members) for i in _PLACES]
    return found


def text_of(values: Sequence[float]) -> str:
    """Return a mean with its 95 % interval over families."""
    mean, count = statistics.fmean(values), len(values)
    half = float(student.ppf(0.975, count - 1)) * statistics.stdev(values) / math.sqrt(count) if count > 1 else math.inf
    return f"{mean:6.3f} +- {half:.3f}"


_PLACES = range(len(CHECKPOINTS))


def print_means(scores: Sequence[Score]) -> None:
    """Print the means over families with their intervals, then how each method differs from the first one."""
    means = {label: by_family([s for s in scores if s.job.label == label]) for label in _labels(scores)}
    first = next(iter(means))
    for label, found in means.items():
        cells = "   ".join(text_of([values[i] for values in found.values()]) for i in _PLACES)
        print(f"{f'mean of {len(found)}':16}{label:20}{cells}", flush=True)
    for label, found in list(means.items())[1:]:
        shared = [family for family in found if family in means[first]]
        cells = "   ".join(text_of([found[f][i] - means[first][f][i] for f in shared]) for i in _PLACES)
        print(f"{'less that of':16}{first:20}{cells}   {label}", flush=True)


def _labels(scores: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(score.job.label for score in scores))


def print_left_out(scores: Sequence[Score]) -> None:
    """Print, for each family, the regret there of the value that is best on all others."""
    means = {label: by_family([s for s in scores if s.job.label == label]) for label in _labels(scores)}
    families = list(next(iter(means.values())))
    chosen: list[list[float]] = []
    for left_out in families:
        others = {label: np.mean([found[f] for f in families if f != left_out]) for label, found in means.items()}
        best = min(others, key=lambda label: float(others[label]))
        chosen.append(means[best][left_out])
        print(f"{left_out:16}{best:20}" + "".join(f"{value:8.2f}" for value in means[best][left_out]), flush=True)
    cells = "   ".join(text_of([values[i] for values in chosen]) for i in _PLACES)
    print(f"{'left out, mean':36}{cells}", flush=True)


def names_in(folder: Path, members: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return the surfaces of a folder that are asked for; of a family that numbers its members, these members."""
    names: list[str] = []
    for name in surfaces(folder).PROBLEMS:
        family, _, number = name.rpartition("-")
        is_numbered = bool(family) and number.isdecimal()
        asked = [one for one in only if one == name or (is_numbered and one.rpartition("-")[0] == family)]
        all_of_it = [f"{family}-{member}" for member in members] if members and is_numbered else [name]
        names += asked if only else all_of_it
    return names


def main() -> None:
    """Run all searches in parallel and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surfaces", type=Path, action="append", help="may be given again")
    parser.add_argument("--only", default="", help="names of surfaces, separated by commas")
    parser.add_argument("--members", default="", help="members of numbered families, separated by commas")
    parser.add_argument("--vary", default="", help="MODULE.CONSTANT=VALUE,VALUE of pgdyno.optimizer")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--starts", default="default,advice")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    only, members = ([one for one in text.split(",") if one] for text in (args.only, args.members))
    folders = [folder.resolve() for folder in args.surfaces or [OWN_SURFACES]]
    named = [(folder, name) for folder in folders for name in names_in(folder, members, only)]
    methods = [name for name in args.methods.split(",") if name in METHODS]
    if "tpe" in methods and importlib.util.find_spec("optuna") is None:
        methods.remove("tpe")
        print("tpe is left out: optuna is not installed (pip install 'pgdyno[bench]')")
    heads = "".join(f"{'@' + str(trial):>8}" for trial in CHECKPOINTS)
    shares = "".join(f"{'@' + str(trial):>7}" for trial in CHECKPOINTS)
    print(f"{'':36}{'mean regret':>24}{'':9}{'worse than default':>21}")
    print(f"{'surface':16}{'method and start':20}{heads}{'sd':>8} {shares}{'failed':>8}{'ms/ask':>8}")
    scores: list[Score] = []
    constant, _, values = args.vary.partition("=")
    with ProcessPoolExecutor(args.jobs) as pool:
        for folder, name in named:
            surface = surfaces(folder).get(name)
            flat = surface.best - surface.true(surface.default)[0] < FLAT
            starts = [start for start in args.starts.split(",") if start == "default" or surface.advice]
            runs = [(start, m, 0.0) for start in starts for m in methods]
            if constant:
                runs = [("default", "tune", float(value)) for value in values.split(",")]
            jobs = [Job(folder, name, m, s, start, constant, v) for start, m, v in runs for s in range(args.seeds)]
            scored = list(pool.map(run, jobs))
            print_surface(name, scored, flat)
            scores += [] if flat else scored
    if scores:
        print_means(scores)
    if scores and constant:
        print_left_out(scores)


if __name__ == "__main__":
    main()
