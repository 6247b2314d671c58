"""Synthetic response surfaces on which the optimiser is measured without a server.

Each stands for something that tuning a database meets: a cliff where the working set begins to fit, a bottleneck
that moves, memory that runs out, a default that is hard to beat, knobs that do nothing, steps, smooth valleys, noise
with heavy tails, and one surface on which nothing helps. Every kind is a family: `get("steps-3")` is its third
member, drawn with seed 3, so that an optimiser can be developed on some members and checked on others.

A folder with a `surfaces.py` of the same interface can stand in for this one in `bench/optimizer.py --surfaces`:

    PROBLEMS             names of the surfaces
    get(name)            a surface with
      .name .space .default .advice
      .true(point)       (ln performance, failed), without noise
      .measure(point, rng)  ln performance with noise, or None when the trial fails
      .best              the best ln performance that a long search without noise found
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Value = int | float | str
Spec = dict[str, object]
Point = dict[str, Value]
Vector = NDArray[np.float64]
Response = Callable[[Vector], tuple[float, bool]]

CHOICES = ("off", "low", "high")
SPAN = 1000


@dataclass(frozen=True)
class Surface:
    """A response over `dims` knobs, written on coordinates in [0, 1]; `start` is the default's coordinates."""

    name: str
    start: Vector
    response: Response
    kinds: tuple[str, ...]
    noise_sd: float = 0.05
    outlier_share: float = 0.02
    heavy: bool = False
    hints: tuple[Vector, ...] = field(default=())

    @cached_property
    def space(self) -> list[Spec]:
        """Return the knobs as plain dictionaries: name, type, range or choices, default."""
        return [_spec(place, kind, self.default[f"knob{place:02d}"]) for place, kind in enumerate(self.kinds)]

    @cached_property
    def default(self) -> Point:
        """Return the point at which tuning starts."""
        return self.point(self.start)

    @property
    def advice(self) -> list[Point]:
        """Return rule-of-thumb points, possibly none."""
        return [self.point(hint) for hint in self.hints]

    def point(self, at: Vector) -> Point:
        """Return the knob values at these coordinates."""
        return {f"knob{place:02d}": _value(kind, float(at[place])) for place, kind in enumerate(self.kinds)}

    def coordinates(self, point: Mapping[str, Value]) -> Vector:
        """Return the coordinates of a point."""
        return np.array([_coordinate(kind, point[f"knob{place:02d}"]) for place, kind in enumerate(self.kinds)])

    def true(self, point: Mapping[str, Value]) -> tuple[float, bool]:
        """Return ln performance without noise, and whether a trial of this point fails."""
        return self.response(self.coordinates(point))

    def measure(self, point: Mapping[str, Value], rng: Generator) -> float | None:
        """Return what one trial would measure, or None when it fails."""
        value, failed = self.true(point)
        if failed:
            return None
        noise = self.noise_sd * (rng.standard_t(3) if self.heavy else rng.normal())
        if rng.random() < self.outlier_share:
            noise += float(np.log(rng.uniform(0.45, 0.8)))
        return value + float(noise)

    @cached_property
    def best(self) -> float:
        """Return the best value that a search without noise finds in about 15,000 evaluations."""
        rng = np.random.default_rng(7)
        pool = [self.start, *self.hints, *rng.random((4000, len(self.kinds)))]
        top = sorted(((self._score(at), tuple(at)) for at in pool), reverse=True)[:12]
        for _ in range(80):
            moved = [_moved(np.array(at), rng) for _, at in top for _ in range(12)]
            top = sorted({*top, *((self._score(at), tuple(at)) for at in moved)}, reverse=True)[:12]
        return top[0][0]

    def _score(self, at: Vector) -> float:
        value, failed = self.true(self.point(at))
        return -1e9 if failed else value


def _moved(at: Vector, rng: Generator) -> Vector:
    for place in rng.choice(at.size, rng.integers(1, 4), replace=False):
        jump = rng.random() < 0.3
        at[place] = rng.random() if jump else np.clip(at[place] + rng.normal(0, 0.1), 0, 1)
    return at


def _spec(place: int, kind: str, default: Value) -> Spec:
    name = f"knob{place:02d}"
    if kind == "choice":
        return {"name": name, "type": "cat", "choices": list(CHOICES), "default": default}
    if kind == "switch":
        return {"name": name, "type": "cat", "choices": ["off", "on"], "default": default}
    low, high = {"log": (8.0, 2.0**20), "few": (0.0, 8.0), "linear": (0.0, float(SPAN))}[kind]
    return {"name": name, "type": "int", "lo": low, "hi": high, "log": kind == "log", "default": default}


def _value(kind: str, u: float) -> Value:
    if kind == "choice":
        return CHOICES[min(int(u * 3), 2)]
    if kind == "switch":
        return "on" if u >= 0.5 else "off"
    return round(8 * 2 ** (17 * u)) if kind == "log" else round(u * (8 if kind == "few" else SPAN))


def _coordinate(kind: str, value: Value) -> float:
    if isinstance(value, str):
        return CHOICES.index(value) / 2 if kind == "choice" else float(value == "on")
    return float(np.log2(value / 8) / 17) if kind == "log" else value / (8 if kind == "few" else SPAN)


def _kinds(dims: int) -> tuple[str, ...]:
    return tuple(
        ("log", "log", "linear", "log", "few", "linear", "switch", "log", "linear", "choice")[i % 10]
        for i in range(dims)
    )


def _logistic(x: float | Vector) -> Vector:
    return np.asarray(1 / (1 + np.exp(-np.asarray(x))))


def cliff(seed: int) -> Surface:
    """One knob is worth 3.4x past a cliff, and a little further memory runs out; the others hardly matter."""
    rng = np.random.default_rng([1, seed])
    edge, small = rng.uniform(0.62, 0.8), rng.normal(0, 0.03, 20)

    def response(x: Vector) -> tuple[float, bool]:
        gain = 1.22 * float(_logistic((x[0] - edge) / 0.03))
        return gain + float(small @ x), bool(x[0] > 0.93)

    return Surface(f"cliff-{seed}", np.full(20, 0.24), response, _kinds(20), 0.06)


def bottleneck(seed: int) -> Surface:
    """The slowest of CPU, reads, WAL and sorting decides: a knob matters only when its turn has come; with advice."""
    rng = np.random.default_rng([2, seed])
    order, load = rng.permutation(18), rng.uniform(0.7, 1.4, 4)

    def response(y: Vector) -> tuple[float, bool]:
        x = y[order]
        cached = 1 - np.exp(-3.5 * x[0])
        reads = 1.5 * (1 - cached) * (1.3 - 0.6 * x[1]) * (1 + 0.4 * x[2])
        wal = 0.35 + 1.2 * np.exp(-4 * min(x[3], x[4] + 0.15)) + 0.25 * (x[5] - 0.7) ** 2
        sorts = 0.3 + 0.9 / (1 + np.exp(12 * (x[6] - 0.55))) - 0.2 * x[7] + 0.2 * x[7] ** 2
        cpu = 0.45 + 0.2 * abs(x[8] - 0.35) + 0.12 * x[9] + 0.1 * x[0] ** 3
        times = load * np.array([cpu, reads, wal, sorts])
        memory = 0.75 * x[0] ** 2 + 0.6 * x[6] ** 3 * (0.5 + x[10])
        return -float(np.log(np.sum(times**4) ** 0.25)), bool(memory > 0.9)

    start = np.full(18, 0.3)
    hint = start.copy()
    hint[order[[0, 1, 3, 4, 6]]] = (0.7, 0.9, 0.7, 0.6, 0.5)
    return Surface(f"bottleneck-{seed}", start, response, _kinds(18), 0.05, hints=(hint,))


def narrow(seed: int) -> Surface:
    """A default that most points fall far below; a gain of about 1.5x lies in moderate moves; noise has heavy tails."""
    rng = np.random.default_rng([3, seed])
    start = rng.uniform(0.25, 0.75, 23)
    shift = np.where(np.arange(23) < 9, rng.choice([-1, 1], 23) * rng.uniform(0.12, 0.3, 23), 0.0)
    optimum, weight = np.clip(start + shift, 0, 1), rng.gamma(0.8, 1.2, 23)
    shuffle = rng.permutation(23)

    def response(y: Vector) -> tuple[float, bool]:
        away = (y - optimum)[shuffle]
        pairs = 0.8 * float(np.sum(away[:10] * away[10:20]))
        return -float(np.log1p(np.sum(weight[shuffle] * away**2))) - pairs, False

    return Surface(f"narrow-{seed}", start, response, _kinds(23), 0.06, heavy=True)


def steps(seed: int) -> Surface:
    """Piecewise constant, few knobs important, many that matter a little; part of the space fails."""
    rng = np.random.default_rng([4, seed])
    share = rng.dirichlet(np.full(20, 0.35))
    knob = rng.choice(20, (150, 4), p=share)
    edge, leaf = rng.random((150, 4)), rng.normal(0, 0.13, (150, 16))
    rows, powers = np.arange(150), 2 ** np.arange(4)
    death = rng.choice(20, 3, replace=False)
    limit = rng.uniform(0.45, 0.8, 3)
    start = np.full(20, 0.4)
    start[death] = np.clip(limit - 0.15, 0, 1)

    def response(x: Vector) -> tuple[float, bool]:
        leaves = ((x[knob] > edge) * powers).sum(axis=1)
        failed = bool(np.sum(x[death] > limit) >= 2 and x[death[0]] > limit[0] - 0.1)
        return float(leaf[rows, leaves].sum()) * 0.2, failed

    return Surface(f"steps-{seed}", start, response, _kinds(20), 0.05)


def valleys(seed: int) -> Surface:
    """A smooth random field over 20 knobs, of which about seven matter, on top of saturating single effects."""
    rng = np.random.default_rng([5, seed])
    scale = np.where(np.arange(20) < 7, rng.uniform(0.8, 2.5, 20), 0.08)[rng.permutation(20)]
    waves, phase = rng.normal(0, 1, (200, 20)) * scale, rng.uniform(0, 2 * np.pi, 200)
    slope, steep = rng.normal(0, 0.25, 20) * (scale > 0.5), rng.uniform(2, 9, 20)

    def response(x: Vector) -> tuple[float, bool]:
        field_value = 0.25 * float(np.sqrt(2 / 200) * np.cos(waves @ x + phase).sum())
        single = float(np.sum(slope * (1 - np.exp(-steep * x))))
        return field_value + single, False

    return Surface(f"valleys-{seed}", np.full(20, 0.35), response, _kinds(20), 0.05)


def flat(seed: int) -> Surface:
    """Nothing beats the default: some knobs do nothing, some cost a little. The answer is to keep it."""
    rng = np.random.default_rng([6, seed])
    start, cost = rng.uniform(0.2, 0.8, 20), np.where(rng.random(20) < 0.5, 0.0, rng.uniform(0.0, 0.25, 20))

    def response(x: Vector) -> tuple[float, bool]:
        return -float(np.sum(cost * np.maximum(np.abs(x - start) - 0.05, 0))), False

    return Surface(f"flat-{seed}", start, response, _kinds(20), 0.05)


def ridge(seed: int) -> Surface:
    """Knobs must fit each other: curved valleys along the ratios of two pairs, saturating gains along three others."""
    rng = np.random.default_rng([11, seed])
    order, offset = rng.permutation(16), rng.uniform(-0.25, 0.25, 2)
    depth, steep = rng.uniform(0.5, 1.2, 2), rng.uniform(1.5, 5, 3)

    def response(y: Vector) -> tuple[float, bool]:
        x = y[order]
        fit = [depth[i] * (x[2 * i] ** 1.5 - x[2 * i + 1] - offset[i]) ** 2 for i in range(2)]
        gains = 0.25 * np.sum(1 - np.exp(-steep * x[4:7])) + 0.3 * (x[0] + x[2])
        return float(gains - sum(fit)) - 0.2 * float(x[7] ** 4), bool(x[0] + x[2] + x[8] > 2.2)

    return Surface(f"ridge-{seed}", rng.uniform(0.15, 0.5, 16), response, _kinds(16), 0.05)


def network(seed: int) -> Surface:
    """A random network of two layers over 22 knobs, whose weights fall off from knob to knob."""
    rng = np.random.default_rng([12, seed])
    reach = rng.permutation(1.0 / (1 + 0.6 * np.arange(22)))
    inner, bias = rng.normal(0, 2.2, (24, 22)) * reach, rng.normal(0, 0.5, 24)
    outer = rng.normal(0, 0.8 / np.sqrt(24), 24)

    def response(x: Vector) -> tuple[float, bool]:
        return float(outer @ np.tanh(inner @ (x - 0.5) + bias)), False

    return Surface(f"network-{seed}", rng.uniform(0.2, 0.6, 22), response, _kinds(22), 0.06, heavy=True)


def queue(seed: int) -> Surface:
    """Sixteen clients of a closed queueing network: a knob shortens one station's service and lengthens another's."""
    rng = np.random.default_rng([13, seed])
    base, stations = rng.uniform(0.3, 1.2, 5), 5
    helped, hurt = rng.integers(0, stations, 18), rng.integers(0, stations, 18)
    gain, cost = rng.gamma(0.5, 0.5, 18), rng.gamma(0.4, 0.2, 18)
    start = rng.uniform(0.2, 0.5, 18)

    def response(x: Vector) -> tuple[float, bool]:
        service = np.log(base)
        np.subtract.at(service, helped, gain * np.sqrt(x))
        np.add.at(service, hurt, cost * x**2)
        demand, waiting, rate = np.exp(service), np.zeros(stations), 0.0
        for clients in range(1, 17):  # mean value analysis (Reiser and Lavenberg 1980)
            times = demand * (1 + waiting)
            rate = clients / (1.0 + float(times.sum()))
            waiting = rate * times
        return float(np.log(rate)), bool(np.sum(x[:6] ** 2) > 3.6)

    return Surface(f"queue-{seed}", start, response, _kinds(18), 0.05)


def pairs(seed: int) -> Surface:
    """Some gains come only when two knobs have both passed their edges; each alone costs a little."""
    rng = np.random.default_rng([14, seed])
    partners, edges = rng.permutation(20)[:12].reshape(6, 2), rng.uniform(0.35, 0.75, (6, 2))
    gain, alone = rng.gamma(1.5, 0.12, 6), rng.uniform(0.0, 0.06, (6, 2))

    def response(x: Vector) -> tuple[float, bool]:
        passed = _logistic((x[partners] - edges) / 0.05)
        return float(gain @ passed.prod(axis=1) - np.sum(alone * passed)), False

    return Surface(f"pairs-{seed}", np.full(20, 0.3), response, _kinds(20), 0.05)


def small(seed: int) -> Surface:
    """Little to gain (about 1.3x) beside noise with heavy tails, and much to lose: most changes cost."""
    rng = np.random.default_rng([15, seed])
    start = rng.uniform(0.25, 0.75, 21)
    shift = np.where(rng.random(21) < 0.3, rng.choice([-1, 1], 21) * rng.uniform(0.15, 0.4, 21), 0.0)
    optimum, weight = np.clip(start + shift, 0, 1), rng.gamma(0.6, 0.6, 21)

    def response(x: Vector) -> tuple[float, bool]:
        return -float(np.sum(weight * np.minimum(np.abs(x - optimum), 0.5) ** 1.5)), False

    return Surface(f"small-{seed}", start, response, _kinds(21), 0.05, 0.03, heavy=True)


FAMILIES: dict[str, Callable[[int], Surface]] = {
    "cliff": cliff, "bottleneck": bottleneck, "narrow": narrow, "steps": steps, "valleys": valleys, "flat": flat,
    "ridge": ridge, "network": network, "queue": queue, "pairs": pairs, "small": small,
}  # fmt: skip
PROBLEMS = ["cliff-1", "bottleneck-1", "narrow-1", "steps-1", "valleys-1", "flat-1"]
UNKNOWN = ["ridge-1", "network-1", "queue-1", "pairs-1", "small-1"]
"""Families that were written after the optimiser: nothing of it was chosen on them, and nothing should be."""


@lru_cache(maxsize=64)
def get(name: str) -> Surface:
    """Return a surface by family and seed, such as `steps-1`."""
    family, _, seed = name.partition("-")
    return FAMILIES[family](int(seed or 1))
