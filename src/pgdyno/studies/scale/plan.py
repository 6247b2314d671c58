"""The plan of a scalability study: levels with their hardware, load, criterion and client curve. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.linux import SERVER_CPUS, SERVER_MEMORY
from pgdyno.model.trial import LoadPlan, Role, TrialSpec
from pgdyno.model.verdict import Metric
from pgdyno.units import binary_text, plural

Value = str | int | float | bool
LEVEL, CONNECTIONS = "level", "clients"
"""The factors that name a run: the level in per cent, or the connections of a closed loop."""
RATE, CLOSED = "rate", "none"
RATIO = 0.05
"""How far the CPUs of a level may be off proportion; memory likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLevel:
    """A level in per cent of production, and what hardware it has; None for the host as it is.

    `target` is a server of its own, as libpq names it, seen from `host`, an address of ssh, where that is named; both
    are empty for the study's own server.
    """

    percent: float
    cpus: float | None = None
    memory_bytes: int | None = None
    target: str = ""
    host: str = ""

    @property
    def server(self) -> str:
        """Return what the plan calls the server of this level; empty for the study's own."""
        return f"{self.target} on {self.host}" if self.host else self.target

    @property
    def name(self) -> str:
        """Return the level in per cent, without the sign."""
        return f"{self.percent:g}"

    @property
    def hardware(self) -> str:
        """Return what the server may use, in words."""
        words = [] if self.cpus is None else [f"{self.cpus:g} CPUs"]
        words += [] if self.memory_bytes is None else [binary_text(self.memory_bytes)]
        return ", ".join(words) or self.server or "the host as it is"

    def configuration(self) -> Configuration:
        """Return the bounds as a session sets them."""
        cpus = {} if self.cpus is None else {SERVER_CPUS: f"{self.cpus:g}"}
        memory = {} if self.memory_bytes is None else {SERVER_MEMORY: str(self.memory_bytes)}
        return Configuration.of({**cpus, **memory}) if cpus or memory else BASELINE


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCriterion:
    """When a level is constant: tolerances as ratio distances, and what the response time is.

    `within_ms` is how long an answer may take and still be a success, None for any time.
    """

    success: float
    response: float
    path: float
    metric: Metric = Metric.LATENCY_P95
    within_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    """The whole plan; kept in the study's options, so that a study goes on by what it was begun with.

    `rate` is transactions per second at 100 % in an open loop, None for a captured load, of which `speed` is 100 %.
    `connections` are the loads of the client curve, in a closed loop on the hardware of `curve`. `proportion` refuses
    servers of levels whose CPUs do not go with the load.
    """

    name: str
    workload: str
    parameters: Mapping[str, Value]
    clients: int
    warmup_s: float
    measure_s: float
    criterion: LevelCriterion
    levels: tuple[PlannedLevel, ...]
    reference: float
    repetitions: int
    seed: int = 1
    rate: float | None = None
    speed: float = 1.0
    protocol: str = "prepared"
    proportion: bool = True
    connections: tuple[int, ...] = ()
    curve: PlannedLevel = field(default_factory=lambda: PlannedLevel(percent=100.0))

    @property
    def is_captured(self) -> bool:
        """Tell whether the load is a captured one, sent at a speed."""
        return self.workload.partition(":")[0] == "replay"

    @property
    def most_clients(self) -> int:
        """Return the most connections of any run."""
        return max((self.clients, *self.connections))

    @property
    def run_s(self) -> float:
        """Return how long one run is under load, in seconds."""
        return self.warmup_s + self.measure_s

    @property
    def runs(self) -> int:
        """Return how many runs are planned."""
        return self.repetitions * (len(self.levels) + len(self.connections))

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the servers that are measured, that of the reference first; empty stands for the study's own."""
        first = self.level_named(f"{self.reference:g}").server
        return tuple(dict.fromkeys([first, *(one.server for one in self.levels), *([""] if self.connections else [])]))

    def runs_on(self, target: str) -> int:
        """Return how many runs are planned on a server."""
        levels = sum(one.server == target for one in self.levels)
        return self.repetitions * (levels + (0 if target else len(self.connections)))

    def level_named(self, name: str) -> PlannedLevel:
        """Return the level of a run's factor."""
        return next(one for one in self.levels if one.name == name)

    def rate_of(self, level: PlannedLevel) -> float | None:
        """Return the transactions per second of a level; None of a captured load."""
        return None if self.rate is None else self.rate * level.percent / 100

    def speed_of(self, level: PlannedLevel) -> float:
        """Return how many times as fast as captured a level is sent."""
        return self.speed * level.percent / 100

    def load_text(self, level: PlannedLevel) -> str:
        """Return the load of a level in words."""
        rate = self.rate_of(level)
        return f"{self.speed_of(level):g} x the captured speed" if rate is None else f"{rate:,.10g} transactions/s"

    def load(self, connections: int | None = None, rate: float | None = None) -> LoadPlan:
        """Return how a run is driven: a level at its rate, or so many connections in a closed loop."""
        clients = connections or self.clients
        return LoadPlan(
            clients=clients,
            jobs=max(1, clients // 8),
            warmup_s=self.warmup_s,
            measure_s=self.measure_s,
            protocol=self.protocol,
            rate=rate,
        )

    def parameters_of(self, level: PlannedLevel | None) -> dict[str, Value]:
        """Return the parameters of the workload at a level; None is for the client curve."""
        speed = {"speed": self.speed_of(level)} if self.is_captured and level is not None else {}
        return {**self.parameters, **speed}

    def specs(self, repetition: int) -> list[TrialSpec]:
        """Return the runs of one repetition in their order, drawn from seed and repetition: drift hits all alike."""
        found = [
            TrialSpec(
                level.configuration(), Role.CELL, f"level {level.name} %", repetition, 0,
                factors={LEVEL: level.name, RATE: CLOSED if (rate := self.rate_of(level)) is None else f"{rate:g}"},
            )
            for level in self.levels
        ]  # fmt: skip
        found += [
            TrialSpec(
                self.curve.configuration(), Role.CELL, plural(one, "connection"), repetition, 0,
                factors={CONNECTIONS: str(one), RATE: CLOSED},
            )
            for one in self.connections
        ]  # fmt: skip
        random.Random(f"scale/{self.seed}/{repetition}").shuffle(found)  # noqa: S311 - an order that a resume draws again
        return found


def bounds_of(plan: ScalePlan) -> tuple[str, ...]:
    """Return which bounds the plan sets on the server."""
    hardware = (*plan.levels, plan.curve)
    found = [SERVER_CPUS] if any(one.cpus is not None for one in hardware) else []
    return (*found, *([SERVER_MEMORY] if any(one.memory_bytes is not None for one in hardware) else []))


def is_even(shares: Iterable[float]) -> bool:
    """Tell whether hardware goes with the load: `shares` are how much of it each level has for a per cent."""
    known = tuple(shares)
    return not known or max(known) <= (1 + RATIO) * min(known)
