"""Two platforms and what their rows say of each other: plain data in, plain data out of `studies.platforms`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgdyno.model.facts import Unknown
from pgdyno.model.verdict import Interval

UNTOLD = Unknown("it was not told")


class Denominator(StrEnum):
    """What a throughput is divided by. A ratio without its denominator says nothing: the order may turn round."""

    CORE = "per core"
    THREAD = "per thread"
    SOCKET = "per socket"
    VCPU = "per vCPU"
    TOTAL = "in total"
    BUSY_CORE = "per core kept busy"
    PRICE = "per price"


ESTIMATES = frozenset({Denominator.BUSY_CORE})
"""Denominators that assume what was not measured: that the next percent of CPU brings as much as the last."""


@dataclass(frozen=True, slots=True)
class PlatformRow:
    """One cell: what a platform did under one load. `clients` is of each instance; `cpu_pct` of all its CPUs.

    `throughputs` holds the runs of the cell; `tps` is all their transactions over all their seconds. `threads` replaces
    the platform's own where the row was measured with another SMT level.
    """

    configuration: str
    mode: str
    instances: int
    clients: int
    tps: float
    latency_ms: float | None = None
    cpu_pct: float | None = None
    threads: int | None = None
    throughputs: tuple[float, ...] = ()
    runs: tuple[int, ...] = ()
    durability: str = ""
    """X where its settings can lose committed data: such a row is a measurement and never the headline."""
    stands_for: str = ""
    """The configuration that it is the same as, where a printed table has another name for it."""

    @property
    def connections(self) -> int:
        """Return the sessions of all instances."""
        return self.instances * self.clients

    @property
    def kind(self) -> tuple[str, str]:
        """Return configuration and mode: rows of one kind differ in their load alone."""
        return self.stands_for or self.configuration, self.mode

    @property
    def load(self) -> tuple[str, str, int, int]:
        """Return what has to be equal for two rows to be under equal load."""
        return (*self.kind, self.instances, self.clients)


@dataclass(frozen=True, slots=True)
class Platform:
    """A machine with what was measured on it.

    `same` holds what has to agree for a comparison to be valid: `workload`, `data set`, `driver`, `period` and
    `configuration`, and `configuration NAME` for those that rows name. `unlike` holds what may differ and is listed.
    Both map a name to words, and a value that is not known is absent. `price` is of the whole, in any currency.
    """

    name: str
    rows: tuple[PlatformRow, ...]
    cores: int | Unknown = UNTOLD
    threads: int | Unknown = UNTOLD
    sockets: int | Unknown = UNTOLD
    vcpus: int | Unknown = UNTOLD
    price: float | None = None
    study: str = ""
    environment: str = ""
    same: Mapping[str, str] = field(default_factory=dict)
    unlike: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The throughput of two rows by one denominator, and the first over the second; `interval` where runs repeat."""

    denominator: Denominator
    a: float | Unknown
    b: float | Unknown
    ratio: float | Unknown
    interval: Interval | None = None

    @property
    def is_estimate(self) -> bool:
        """Return whether the denominator assumes what was not measured."""
        return self.denominator in ESTIMATES


@dataclass(frozen=True, slots=True)
class Matchup:
    """Two rows beside each other. `past_best` names the platforms whose best is at a smaller load than this one."""

    a: PlatformRow
    b: PlatformRow
    ratios: tuple[Ratio, ...]
    past_best: tuple[str, ...] = ()

    def by(self, denominator: Denominator) -> Ratio:
        """Return the ratio by one denominator."""
        return next(one for one in self.ratios if one.denominator is denominator)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which the platforms are not alike; None where it is not known of one of them."""

    what: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class PlatformComparison:
    """What two platforms' rows allow to say. With `invalid` reasons there is no ratio, only what the rows are."""

    a: Platform
    b: Platform
    best: Matchup | None
    equal: tuple[Matchup, ...]
    unlike: tuple[Difference, ...]
    invalid: tuple[str, ...]
    unchecked: tuple[str, ...]
    """What should agree and is not known of both."""
