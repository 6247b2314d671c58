"""A search on a simulated live load (row L13): when it has a winner that was confirmed, and what that one is worth.

    python bench/live.py --searches 20

The search is the product's, from its first candidate to its choice, over the knobs that it takes on a fresh server;
only the load is `live_simulation`'s, whose statements answer to four of them, each in its own measure. Beside it the
usual way without a baseline: 30 windows of five minutes under the same load, of which two are not counted, another
configuration in each, chosen by the same optimiser, and the one with the least time a call wins.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.constraints import check
from pgdyno.knobs.dimension import Dimension
from pgdyno.knobs.space import (
    SearchSpace,
    build_space,
    configuration_to_point,
    point_to_configuration,
    starting_points,
)
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts, HostFacts, ServerFacts, SettingFact
from pgdyno.optimizer.ask import ask
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.stats.body_index import PeriodCounts, added
from pgdyno.stats.period_choice import SWITCH_S, USUAL_S, period_noise
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.candidates import Reply
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.search import LiveSearcher
from pgdyno.studies.live.search_run import UNSEEN, USUAL_SD
from pgdyno.studies.live.switchback import GUARD_REST_S, Switchback
from pgdyno.studies.live.world import BASELINE_ARM, A, B

ROWS = Path(__file__).parents[1] / "tests" / "data" / "pg_params.json"
GB = 1 << 30
CONNECTIONS = 20
SHARES = (0.45, 0.25, 0.2, 0.1)
"""Of the whole gain, by the knobs that matter."""
BEST = 0.6
"""Times as long with all of them at their best."""
FAR = 0.3
"""A knob's best value lies so far away at least, as a share of its range."""
STEP_S = 5.0
FRESH_PAIRS = 12
WINDOWS, WINDOW_S, COLD_S = 30, 300.0, 120.0
RUNS = ((10.0, 75.0), (30.0, 105.0), (30.0, 120.0))
"""Minutes of the reference, and of all."""


def facts_of(major: int = 18) -> Facts:
    """Return a fresh server of this version, by its real settings, on two cores with 24 GB."""
    document = json.loads(ROWS.read_text())
    settings = {}
    for name, rows in document["params"].items():
        for row in rows:
            if major in row["versions"]:
                fields = {key: value for key, value in row.items() if key != "versions"}
                fields["enumvals"] = tuple(fields.get("enumvals", ()))
                settings[name] = SettingFact(name=name, unit=fields.pop("unit", None), reset_val=None, **fields)
    version = document["versions"][str(major)]
    host = HostFacts("x86_64", "6.1.0", 2, 24 * GB, 24 * GB, 4096, "model", "none", 200 * GB, "ext4", "madvise", 0, 0)
    server = ServerFacts(
        str(version["version"]), int(version["version_num"]), 8192, int(settings["max_connections"].setting), False, 0,
        "/data", "/data/postgresql.conf", True,
    )  # fmt: skip
    return Facts(host=host, server=server, settings=settings)


@dataclass(frozen=True)
class PlantedAnswer:
    """How the load's time depends on the settings: knobs with where their best value is, from 0 to 1, and what for."""

    facts: Facts
    space: SearchSpace
    best: dict[str, float]
    gain: dict[str, float]
    sensitivity: NDArray[np.float64]
    """How much of it each statement shows; 1 in the mean."""

    @classmethod
    def drawn(cls, seed: int, statements: int) -> PlantedAnswer:
        """Draw one."""
        rng, facts = np.random.default_rng([seed, 13]), facts_of()
        space = build_space(
            load_catalogue(), facts, exclude=[name for name in UNSEEN if name in facts.settings], reload_only=True,
            budget=TrialBudget(warmup_s=5.0, measure_s=25.0, read_only=False, connections=CONNECTIONS),
        )  # fmt: skip
        amounts = [one for one in space.dimensions if one.kind != "choice" and one.default not in one.special]
        chosen = [amounts[place] for place in rng.permutation(len(amounts))[: len(SHARES)]]
        best = {one.name: _away(one, float(rng.random())) for one in chosen}
        gain = {one.name: -share * math.log(BEST) for one, share in zip(chosen, SHARES, strict=True)}
        return cls(facts, space, best, gain, rng.choice([0.0, 1.0, 2.0], statements))

    def log_time(self, settings: Configuration) -> float:
        """Return ln of the time under these settings over that of the server as it is, of a statement of 1."""
        point, total = configuration_to_point(self.space, settings, self.facts), 0.0
        for name, best in self.best.items():
            dimension = self.space[name]
            now, then = dimension.encode(point[name])[0], dimension.encode(dimension.default)[0]
            total -= self.gain[name] * max(-1.0, 1 - abs(now - best) / abs(then - best))
        return total

    def factors(self, settings: Configuration) -> NDArray[np.float64]:
        """Return how many times as long each statement takes."""
        return np.exp(self.log_time(settings) * self.sensitivity)

    def fits(self, settings: Configuration) -> bool:
        """Tell whether memory does for them."""
        return check(settings, self.facts, connections=CONNECTIONS) is None


def _away(dimension: Dimension, drawn: float) -> float:
    """Return a place that is FAR from the default or further, on either side as there is room."""
    here = dimension.encode(dimension.default)[0]
    below, above = max(0.0, here - FAR), max(0.0, 1 - here - FAR)
    place = drawn * (below + above)
    return place if place < below else here + FAR + place - below


@dataclass
class SimulatedServer:
    """The world and the duels of a search; its clock counts from the study's begin."""

    answer: PlantedAnswer
    simulation: LiveSimulation
    now_s: float = 0.0
    arms: dict[str, Configuration] = field(default_factory=dict)
    arm: str = BASELINE_ARM
    ends_at: float = 0.0
    compared: int = 0

    def watch(self, seconds: float) -> None:
        """Watch the baseline for so long, which is the reference."""
        self.steps = [self.simulation.period(STEP_S) for _ in range(round(seconds / STEP_S))]
        self.reference = self.simulation.reference_of(self.steps, STEP_S)
        self.now_s += seconds

    def apply(self, arm: str) -> None:
        self.arm = arm
        self.now_s += SWITCH_S

    def wash(self, least_s: float, most_s: float) -> bool:
        self.now_s += least_s
        return True

    def count(self, seconds: float) -> PeriodCounts:
        self.now_s += seconds
        return self.simulation.period(seconds, self.answer.factors(self.arms.get(self.arm, BASELINE)))

    def has_room(self, seconds: float) -> bool:
        return self.now_s + seconds <= self.ends_at

    def rest(self, seconds: float = GUARD_REST_S) -> None:
        self.now_s += seconds

    def put_back(self) -> None:
        self.arm = BASELINE_ARM

    def now(self) -> float:
        return self.now_s

    def compare(
        self,
        a: Configuration,
        b: Configuration,
        design: Design,
        until_s: float,
        enough: Callable[[Sequence[float]], bool] | None = None,
    ) -> LiveOutcome:
        """Compare two configurations as a live study does."""
        self.compared += 1
        self.arms, self.ends_at = {A: a, B: b}, until_s
        return Switchback(self, self.reference, USUAL_S, design, self.compared, most_stops=1, enough=enough).run()


@dataclass(frozen=True, slots=True)
class FoundBySearch:
    """What a search came to. `first_s` is when its first finalist held, and `time` is really what it offers takes."""

    first_s: float | None
    tried: int
    is_offered: bool
    time: float
    is_reproduced: bool | None


def searched(seed: int, reference_s: float, budget_s: float) -> FoundBySearch:
    """Run one search."""
    load = SimulatedLoad()
    answer = PlantedAnswer.drawn(seed, load.statements)
    server, first = SimulatedServer(answer, LiveSimulation(load, seed)), list[float]()
    server.watch(reference_s)
    noise = period_noise(server.steps, STEP_S, server.reference, USUAL_S)

    def hear() -> None:
        if not first and any(outcome.is_acceptable for _, outcome in searcher.finals):
            first.append(server.now_s)

    searcher = LiveSearcher(
        duels=server, space=answer.space, facts=answer.facts, connections=CONNECTIONS,
        starts=tuple(starting_points(answer.space, answer.facts, connections=CONNECTIONS, read_only=False)),
        design=Design(), seed=seed, candidates=20, pair_sd=noise.pair_sd or USUAL_SD, pair_s=2 * (USUAL_S + SWITCH_S),
        ends_at=budget_s, decide=lambda proposal: Reply(proposal.settings), announce=lambda _text: None, hear=hear,
    )  # fmt: skip
    searcher.run()
    settings, again = BASELINE, None
    if searcher.chosen is not None:
        settings, outcome = searcher.finals[searcher.chosen]
        design = Design(min_pairs=FRESH_PAIRS, max_pairs=FRESH_PAIRS)
        fresh = server.compare(BASELINE, settings, design, math.inf).verdict
        told = outcome.verdict
        assert told is not None, "it is better"
        again = fresh is not None and told.interval.lo <= fresh.interval.ratio <= told.interval.hi
    return FoundBySearch(
        first[0] if first else None, len(searcher.tried), searcher.chosen is not None,
        math.exp(answer.log_time(settings)), again,
    )  # fmt: skip


def windowed(seed: int) -> float:
    """Return the time that the winner of windows without a baseline really takes, over that of the server as it is."""
    load = SimulatedLoad()
    answer, simulation = PlantedAnswer.drawn(seed, load.statements), LiveSimulation(load, seed)
    history: list[ScoredPoint] = []
    starts = tuple(starting_points(answer.space, answer.facts, connections=CONNECTIONS, read_only=False))
    for _ in range(WINDOWS):
        point = ask(
            answer.space.dimensions, history, starts=starts, seed=seed,
            feasible=lambda one: answer.fits(point_to_configuration(answer.space, one)),
        ).point  # fmt: skip
        factors = answer.factors(point_to_configuration(answer.space, point))
        each = [simulation.period(USUAL_S, factors) for _ in range(round(WINDOW_S / USUAL_S))]
        whole = added(each[round(COLD_S / USUAL_S) :])
        history.append(ScoredPoint(point, -math.log(whole.time_ms.sum() / whole.calls.sum())))
    best = max(history, key=lambda one: -math.inf if one.value is None else one.value)
    return math.exp(answer.log_time(point_to_configuration(answer.space, best.point)))


def print_searches(searches: int, seed: int) -> None:
    """Print what searches with several budgets come to, and windows beside them."""
    seeds = range(1000 * seed, 1000 * seed + searches)
    print(f"L13, simulated, {searches} searches a row; the best settings take {BEST:g} of the time")
    print("reference, all min  held in fresh pairs  first held min, median (most)  tried  time, median (worst)  again")
    for reference_min, budget_min in RUNS:
        found = [searched(one, 60 * reference_min, 60 * budget_min) for one in seeds]
        first = sorted(one.first_s / 60 for one in found if one.first_s is not None)
        offered = [one for one in found if one.is_offered]
        when = f"{np.median(first):.0f} ({first[-1]:.0f})" if first else "-"
        print(
            f"{reference_min:>4g} {budget_min:>5g}         {len(offered):>3} of {searches:<3}           {when:<24} "
            f"{np.median([one.tried for one in found]):>5g}  {_times([one.time for one in found]):<20} "
            f"{sum(bool(one.is_reproduced) for one in offered)} of {len(offered)}",
            flush=True,
        )
    print(f"{WINDOWS} windows of {WINDOW_S:g} s, no baseline: {_times([windowed(one) for one in seeds])} after "
          f"{WINDOWS * WINDOW_S / 60:g} min")  # fmt: skip


def _times(times: Sequence[float]) -> str:
    return f"{np.median(times):.2f} ({max(times):.2f})"
