"""A matrix: cells of a load on a server, and the row of figures that each one came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

BASELINE_NAME = "default"
"""The configuration that changes nothing: the server as it was found."""
LOCK_MODES: Mapping[str, str] = {
    "row_exclusive": "RowExclusiveLock",
    "access_share": "AccessShareLock",
    "exclusive": "ExclusiveLock",
}
"""The columns of locks, and the modes of `pg_locks` that they count."""
BUILTIN = ("tpcb-like", "simple-update", "select-only")
"""pgbench's own scripts."""
OWN_SIZE = ("ybio", "tprocc", "replay")
"""The workloads whose size is a parameter of their own: the scale of pgbench's tables is no factor of theirs."""
MODES = (*BUILTIN, *OWN_SIZE, "custom")
"""What a cell runs: any workload."""


def workload_of(mode: str) -> str:
    """Return the workload of a mode, which may name its subject behind a colon: `replay:TRACE`."""
    return mode.partition(":")[0]


WITH_HISTORY = ("tpcb-like", "simple-update")
"""The modes that insert one row into the history table for each transaction."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a matrix. An empty `smt` or `server_cpus` leaves the host as it is.

    `mode` is a workload; `scale` is 0 where that one has no scale. `placement` is `socket`, `loopback` or the name of a
    host, as the load generators reach the server. `stands_for` is `default` where a table that was printed elsewhere
    calls the default configuration by a name of its own.
    """

    FORM: ClassVar = Mapping[str, str]
    instances: int
    clients: int
    jobs: int
    mode: str
    scale: int
    configuration: str
    smt: str = ""
    server_cpus: str = ""
    placement: str = "socket"
    stands_for: str = ""

    @property
    def is_default(self) -> bool:
        """Return True for a cell of the default configuration, whatever it is called."""
        return BASELINE_NAME in (self.configuration, self.stands_for)

    @property
    def connections(self) -> int:
        """Return the sessions of all load generators together."""
        return self.instances * self.clients

    def factors(self) -> dict[str, str]:
        """Return every factor as a word, for the trial that measures the cell; what is left as it is has none."""
        words = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        return {name: word for name, word in words.items() if word}

    @classmethod
    def of_factors(cls, factors: Mapping[str, str]) -> Cell:
        """Rebuild a cell. Raises KeyError or ValueError on words that no matrix wrote."""
        words: dict[str, Any] = {name: int(factors[name]) for name in ("instances", "clients", "jobs", "scale")}
        words |= {name: factors[name] for name in ("mode", "configuration", "placement")}
        return cls(**words | {name: factors.get(name, "") for name in ("smt", "server_cpus", "stands_for")})

    form, of_form = factors, of_factors  # as JSON has it


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """The figures of one cell over its runs. None means not measured, and `reason` says why.

    `tps` is transactions per second of all load generators, `latency_ms` their mean weighted by transactions;
    `cpu_pct` is the CPU of the server's host alone, in percent of all its CPUs. Locks are concurrencies, the mean and
    the largest of the samples. `edges` is how many sessions tps x latency has too many because it holds whole
    transactions where the measured window cut them, None where that is not known. `runs` holds the throughput of each
    complete run by its repetition. `durability` is the worst class among what the configuration sets. `checks` are
    sentences on what did not hold, `warnings` on what a reader must know of the load before believing its figures.
    """

    cell: Cell
    state: str = "complete"
    reason: str | None = None
    tps: float | None = None
    latency_ms: float | None = None
    cpu_pct: float | None = None
    smt: str = ""
    locks: Mapping[str, float] = field(default_factory=dict)
    locks_max: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[int, float] = field(default_factory=dict)
    durability: str = ""
    system: str = ""
    cores: int | None = None
    vcpus: int | None = None
    server_cpu_pct: float | None = None
    driver_cpu_pct: float | None = None
    p99_ms: float | None = None
    edges: float | None = None
    transactions: int = 0
    history_rows: int | None = None
    bytes_before: Mapping[str, float] = field(default_factory=dict)
    bytes_after: Mapping[str, float] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    trials: tuple[int, ...] = ()

    @property
    def usable(self) -> bool:
        """Return True when its figures may be compared with those of other cells."""
        return self.state == "complete" and self.rate > 0

    @property
    def rate(self) -> float:
        """Return the transactions per second, 0 where they were not measured."""
        return self.tps or 0.0


@dataclass(frozen=True, slots=True)
class SkippedCell:
    """A cell that was not measured, and why."""

    cell: Cell
    reason: str
