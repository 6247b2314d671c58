"""Print how near to the optimum a search ends: pgdyno's optimiser beside random search, a plain GP, TPE and SMAC.

    python bench/optimizer.py [--surfaces DIR ...] [--only NAME,NAME] [--members 1,2] [--unknown] [--seeds 20]
                              [--searches own,random,gp,tpe,smac] [--starts default,advice] [--jobs 2]
                              [--vary ask.CAUTION=1,2,3] [--keep FILE]

Normalised regret is (best - returned) / (best - default) of the true performance, without noise, of the configuration
that a search would return: 0 is the optimum, 1 the default, above 1 is worse than the default. The shares are of the
seeds that end below the default, and of those that return it; then how many knobs the others change. Each search
answers in several ways. Of pgdyno's, `choose` is what the judgement of its own trials returns, `tune` the candidate of
a tune, whole, if fresh pairs call it better (up to 24 pairs beside the trials), and `offered` what a tune without a
bound of time offers: its own proof runs on the surface, with the frugal choice, arms that leave settings out, veto and
repair (`surface_tune.py`), and so does the rule that ends a search in which nothing stands out; `unended` is the same
without that rule. `in time` is the same as `offered` of a tune with a `--budget` of which the search had its share.
Of others, the bare name is their best measurement, and `proved` that point after the same pairs.

Each line names its start: the default alone, or the rules of thumb of the surface (only where it has some). The trials
of pgdyno's search include the default, measured anew in every ten. Trial by trial, all searches meet the same noise.
Means are over families of surfaces, which `steps-1` and `steps-2` share, with 95 % intervals over families, and over
surfaces; below them each answer minus `offered` (or the first one), with intervals over families and over surfaces.

With `--keep` a run that was ended goes on: what ran is in FILE, a line of JSON each. Other code needs another file.

DIR holds a `surfaces.py` of the interface that `surfaces/surfaces.py` describes, and may be given again; without it the
project's own synthetic surfaces are used. `--members` takes other members of their families, `--unknown` the families
that nothing of the optimiser was chosen on. `--vary` runs `tune` with a constant of a module of the optimiser at each
value, and says for each family what the value that is best on all others comes to there: nothing is told of a family
that it was chosen on. docs/explanation/optimizer.md discusses the figures.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os

# Before numpy is loaded: processes run in parallel, and threads of linear algebra would fight with them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from search_methods import Surface, Surfaces, load_surfaces
from search_peers import NEEDS, SEARCHES

CHECKPOINTS = (20, 30, 50)
OWN_SURFACES = Path(__file__).resolve().parent / "surfaces"
FLAT = 1e-6
PROOF = ("together", "runs", "unshown", "trials")
"""What a score keeps of how an offer came about."""


@dataclass(frozen=True, slots=True)
class Job:
    """One search to run."""

    folder: Path
    surface: str
    search: str
    seed: int
    start: str
    constant: str = ""
    value: float = 0.0
    """A constant of the optimiser, as `ask.CAUTION`, and its value here."""

    def label(self, answer: str) -> str:
        """Return how a line names the answer and its start."""
        return f"{answer} {self.value:g}" if self.constant else f"{answer} from {self.start}"

    @property
    def family(self) -> str:
        """Return the family of the surface: its name without the number."""
        name, _, number = self.surface.rpartition("-")
        return name if number.isdecimal() else self.surface


@dataclass(frozen=True, slots=True)
class Score:
    """How a search ended by one answer, at each checkpoint: regret, whether that is worse than the default, changes."""

    job: Job
    label: str
    regret: tuple[float, ...]
    worse: tuple[bool, ...]
    changed: tuple[int, ...]
    """How many knobs are not at their default."""
    failed: int
    cpu_s: float
    together: tuple[int, ...] = ()
    """Of what a tune offers: settings with one effect together, its runs beside the search, effects not shown."""
    runs: tuple[int, ...] = ()
    unshown: tuple[int, ...] = ()
    trials: tuple[int, ...] = ()
    """And the trials of its search, fewer than were given where nothing stood out and fresh pairs agreed."""


@lru_cache(maxsize=4)
def surfaces(folder: Path) -> Surfaces:
    """Return the surfaces of a folder, loaded once per process."""
    return load_surfaces(folder)


def run(job: Job) -> list[Score]:
    """Run a search and score each of its answers."""
    surface = surfaces(job.folder).get(job.surface)
    advice = surface.advice if job.start == "advice" else ()
    with set_to(job.constant, job.value):
        search = SEARCHES[job.search](surface, max(CHECKPOINTS), job.seed, CHECKPOINTS, advice)
    default = surface.true(surface.default)[0]
    scores = []
    for answer, points in search.returned.items():
        ends = [surface.true(dict(points[trial]))[0] for trial in CHECKPOINTS]
        regrets = tuple(regret(surface, default, end) for end in ends)
        worse = tuple(end < default - 1e-9 for end in ends)
        known = surface.default.items()
        changed = tuple(sum(points[trial][name] != now for name, now in known) for trial in CHECKPOINTS)
        told = search.offers.get(answer, {})
        offers = [told[trial] for trial in CHECKPOINTS if trial in told]
        proof = tuple(tuple(getattr(offer, name) for offer in offers) for name in PROOF)
        scores.append(Score(job, job.label(answer), regrets, worse, changed, search.failed, search.cpu_s, *proof))
    return scores


def kept(file: Path | None) -> dict[Job, list[Score]]:
    """Return the scores of the jobs that a file has; a line that a kill cut short is none."""
    found: dict[Job, list[Score]] = {}
    for line in file.read_text().splitlines() if file and file.exists() else []:
        try:
            rows = json.loads(line)
        except ValueError:
            continue
        for row in rows:
            fields: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in row.items()}
            fields["job"]["folder"] = Path(fields["job"]["folder"])
            job = fields["job"] = Job(**fields["job"])
            found.setdefault(job, []).append(Score(**fields))
    return found


def keep(file: Path, scores: Sequence[Score]) -> None:
    """Add the scores of a job to a file."""
    with file.open("a") as lines:
        lines.write(json.dumps([asdict(score) for score in scores], default=str) + "\n")


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
    for method in _labels(scores):
        mine = [score for score in scores if score.label == method]
        means = "".join(f"{statistics.fmean(s.regret[i] for s in mine):8.2f}" for i in _PLACES)
        last = [score.regret[-1] for score in mine]
        deviation = statistics.stdev(last) if len(last) > 1 else 0.0
        worse = "".join(f"{statistics.fmean(s.worse[i] for s in mine):6.0%}" for i in _PLACES)
        kept = "".join(f"{statistics.fmean(not s.changed[i] for s in mine):6.0%}" for i in _PLACES)
        changed = changed_text(mine)
        failed = statistics.fmean(score.failed for score in mine)
        cpu_ms = 1e3 * statistics.fmean(score.cpu_s for score in mine)
        note = "  loss in %: nothing is better than the default here" if flat else ""
        line = f"{name:16}{method:24}{means}{deviation:8.2f} {worse}{kept}{changed}{failed:8.1f}{cpu_ms:8.0f}{note}"
        print(line, flush=True)


def changed_text(scores: Sequence[Score]) -> str:
    """Return how many knobs are changed in the mean at each checkpoint, of those scores that change any."""
    counts = [[score.changed[i] for score in scores if score.changed[i]] for i in _PLACES]
    return "".join(f"{statistics.fmean(found) if found else 0:6.1f}" for found in counts)


def by_surface(scores: Sequence[Score]) -> dict[str, list[float]]:
    """Return the mean regret at each checkpoint of each surface."""
    names = dict.fromkeys(score.job.surface for score in scores)
    regrets = {name: [score.regret for score in scores if score.job.surface == name] for name in names}
    return {name: [statistics.fmean(regret[i] for regret in found) for i in _PLACES] for name, found in regrets.items()}


def by_family(scores: Sequence[Score]) -> dict[str, list[float]]:
    """Return the mean regret at each checkpoint of each family: members weigh alike, and so do their seeds."""
    family = {score.job.surface: score.job.family for score in scores}
    found: dict[str, list[list[float]]] = {}
    for name, regrets in by_surface(scores).items():
        found.setdefault(family[name], []).append(regrets)
    return {name: [statistics.fmean(one[i] for one in members) for i in _PLACES] for name, members in found.items()}


def text_of(values: Sequence[float]) -> str:
    """Return a mean with its 95 % interval over these values."""
    mean, count = statistics.fmean(values), len(values)
    half = float(student.ppf(0.975, count - 1)) * statistics.stdev(values) / math.sqrt(count) if count > 1 else math.inf
    return f"{mean:6.3f} +- {half:.3f}"


_PLACES = range(len(CHECKPOINTS))


def print_means(scores: Sequence[Score]) -> None:
    """Print the means over families with their intervals, then how each answer differs from that of a tune."""
    of_label = {label: [score for score in scores if score.label == label] for label in _labels(scores)}
    for label, mine in of_label.items():
        print_line("mean of {} families", label, by_family(mine))
        print_line("mean of {} surfaces", label, by_surface(mine))
        worse = "".join(f"{sum(score.worse[i] for score in mine):6}" for i in _PLACES)
        print(f"{'below the default':20}{label:24}{worse}   of {len(mine)}", flush=True)
        print(f"{'knobs changed':20}{label:24}{changed_text(mine)}", flush=True)
        if all(score.runs for score in mine):
            print_proofs(label, mine)
    first = next((label for label in of_label if label.startswith("offered from")), next(iter(of_label)))
    for grouped, unit in ((by_family, "families"), (by_surface, "surfaces")):
        least = grouped(of_label[first])
        print(f"minus that of {first}:")
        for label, mine in of_label.items():
            found = {name: values for name, values in grouped(mine).items() if name in least}
            less = {name: [values[i] - least[name][i] for i in _PLACES] for name, values in found.items()}
            if label != first:
                print_line("mean of {} " + unit, label, less)


def print_proofs(label: str, scores: Sequence[Score]) -> None:
    """Print how often a tune offers something, how many settings have one effect together there, and runs of all."""
    offered = [[score for score in scores if score.changed[i]] for i in _PLACES]
    together = [statistics.fmean(score.together[i] for score in offered[i]) if offered[i] else 0 for i in _PLACES]
    unshown = [statistics.fmean(score.unshown[i] for score in offered[i]) if offered[i] else 0 for i in _PLACES]
    middle = [statistics.median(score.changed[i] for score in offered[i]) if offered[i] else 0 for i in _PLACES]
    runs = [statistics.fmean(score.runs[i] for score in scores) for i in _PLACES]
    heads = ("their median", "of them together", "of them not shown", "runs beside")
    for head, values in zip(heads, (middle, together, unshown, runs), strict=True):
        print(f"{head:20}{label:24}" + "".join(f"{value:6.1f}" for value in values), flush=True)
    print(f"{'something offered':20}{label:24}" + "".join(f"{len(found):6}" for found in offered), flush=True)
    ends = [[score.trials[i] for score in scores if score.trials and score.trials[i] < CHECKPOINTS[i]] for i in _PLACES]
    cells = (f"{len(found):4}" + (f" by {max(found)}" if found else "") for found in ends)
    print(f"{'ended as flat':20}{label:24}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def print_line(head: str, label: str, found: Mapping[str, Sequence[float]]) -> None:
    """Print means with their intervals at each checkpoint."""
    cells = "   ".join(text_of([values[i] for values in found.values()]) for i in _PLACES)
    print(f"{head.format(len(found)):20}{label:24}{cells}", flush=True)


def _labels(scores: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(score.label for score in scores))


def print_left_out(scores: Sequence[Score]) -> None:
    """Print, for each family, the regret there of the value that is best on all others."""
    means = {label: by_family([score for score in scores if score.label == label]) for label in _labels(scores)}
    families = list(next(iter(means.values())))
    chosen: list[list[float]] = []
    for left_out in families:
        others = {label: np.mean([found[f] for f in families if f != left_out]) for label, found in means.items()}
        best = min(others, key=lambda label: float(others[label]))
        chosen.append(means[best][left_out])
        print(f"{left_out:16}{best:24}" + "".join(f"{value:8.2f}" for value in means[best][left_out]), flush=True)
    cells = "   ".join(text_of([values[i] for values in chosen]) for i in _PLACES)
    print(f"{'left out, mean':40}{cells}", flush=True)


def names_in(folder: Path, members: Sequence[str], only: Sequence[str], unknown: bool) -> list[str]:
    """Return the surfaces of a folder that are asked for; of a family that numbers its members, these members."""
    names: list[str] = []
    for name in (
        getattr(surfaces(folder), "UNKNOWN", surfaces(folder).PROBLEMS) if unknown else surfaces(folder).PROBLEMS
    ):
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
    parser.add_argument("--unknown", action="store_true", help="families that nothing was chosen on")
    parser.add_argument("--vary", default="", help="MODULE.CONSTANT=VALUE,VALUE of pgdyno.optimizer")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--searches", default=",".join(SEARCHES))
    parser.add_argument("--starts", default="default,advice")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="go on from what this file has")
    args = parser.parse_args()
    only, members = ([one for one in text.split(",") if one] for text in (args.only, args.members))
    folders = [folder.resolve() for folder in args.surfaces or [OWN_SURFACES]]
    named = [(folder, name) for folder in folders for name in names_in(folder, members, only, args.unknown)]
    searches = [name for name in args.searches.split(",") if name in SEARCHES]
    for name in [name for name in searches if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None]:
        searches.remove(name)
        print(f"{name} is left out: the package {NEEDS[name]} is not installed")
    heads = "".join(f"{'@' + str(trial):>8}" for trial in CHECKPOINTS)
    shares = "".join(f"{'@' + str(trial):>6}" for trial in CHECKPOINTS)
    print(f"{'':40}{'mean regret':>24}{'':9}{'worse than default':>18}{'keeps default':>18}{'knobs changed':>18}")
    print(f"{'surface':16}{'answer and start':24}{heads}{'sd':>8} {shares * 3}{'failed':>8}{'ms/ask':>8}")
    scores: list[Score] = []
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    constant, _, values = args.vary.partition("=")
    known = kept(args.keep)
    with ProcessPoolExecutor(args.jobs) as pool:
        for folder, name in named:
            surface = surfaces(folder).get(name)
            flat = surface.best - surface.true(surface.default)[0] < FLAT
            starts = [start for start in args.starts.split(",") if start == "default" or surface.advice]
            runs = [(start, search, 0.0) for start in starts for search in searches]
            if constant:
                runs = [("default", "own", float(value)) for value in values.split(",")]
            jobs = [Job(folder, name, one, s, start, constant, v) for start, one, v in runs for s in seeds]
            left = [job for job in jobs if job not in known]
            for job, found in zip(left, pool.map(run, left), strict=True):
                known[job] = found
                if args.keep:
                    keep(args.keep, found)
            scored = [score for job in jobs for score in known[job]]
            scored = [score for score in scored if not constant or score.label.startswith("tune")]
            print_surface(name, scored, flat)
            scores += [] if flat else scored
    if scores:
        print_means(scores)
    if scores and constant:
        print_left_out(scores)


if __name__ == "__main__":
    main()
