"""What a load looks like to the rest of pgdyno: `Workload`, the `RunningLoad` it begins, and their results.

spec() --> prepare(target) once
for each trial: reset(target) -> begin(...) -> poll()/live() ... -> finish() -> examine(...)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgdyno.model.record import Examination
from pgdyno.model.trial import LoadPlan, Outcome, WorkloadSpec
from pgdyno.targets.target import Target
from pgdyno.workloads.gate import StartGate
from pgdyno.workloads.result import CountBins, LoadResult

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadReading:
    """How a running load does, for the progress display and the guards.

    `t` is seconds since the epoch. `tps` and `latency_ms` (mean) hold for the last second. `p99_ms` is over the
    transactions of the last 5 whole seconds and the one under way that have reached the log, within 0.1 %, None while
    there are none; pgbench writes its log in blocks of 4 kB, about 100 transactions. `failed` counts since the
    beginning, as do `captured_deadlocks`, those of a captured load that its capture has as well.
    """

    t: float
    tps: float
    latency_ms: float
    p99_ms: float | None
    transactions: int
    failed: int
    captured_deadlocks: int = 0


class RunningLoad(Protocol):
    """A load under way. Whoever began it must end it: `finish` when all went well, `terminate` otherwise."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Return every process of the driver, for the probes that tell its CPU from the server's."""

    def poll(self) -> bool:
        """Return True once the load has ended, by itself or by force."""

    def wait(self, seconds: float, alarm: int | None = None) -> bool:
        """Wait for the end, at most so long: back at once when it ends or `alarm`, a descriptor, is ready."""

    def live(self) -> LoadReading | None:
        """Return the latest reading, None before the first second is over. Cheap enough for once a second."""

    def series(self) -> CountBins | None:
        """Return what is known by now of the series that `finish` will give, None while that is nothing.

        Drivers write their logs in blocks: the series ends where the first of them has told nothing yet.
        """

    def let_end(self) -> None:
        """Tell the driver that its time is over, as at the end of the planned one: `wait` tells when it has ended."""

    def terminate(self) -> None:
        """End the driver at once, by force if need be. Returns when no process of it is left."""

    def finish(self) -> LoadResult:
        """Wait for the end and return what came of it; at once after `terminate`.

        A load that ended early gives a result with a `reason`. Raises WorkloadError when there is nothing at all to
        report: pgbench could not connect, a script is wrong, no transaction ended.
        """


class Workload(Protocol):
    """A load that can be run again and again from the same data."""

    def spec(self) -> WorkloadSpec:
        """Return what is run. The same workload with the same parameters gives the same fingerprint."""

    def prepare(self, target: Target, *, progress: Progress) -> None:
        """Make the template database, once: later calls find it and return at once.

        Side effects: creates `pgdyno_<fingerprint>_template`, loads, vacuums and analyses it, and asks for a
        checkpoint. A load that was interrupted is dropped and done again. Raises EnvironmentUnsuitable when the role
        may not create databases or a database of that name is not ours, WorkloadError when the load fails.
        """

    def reset(self, target: Target, *, policy: str = "auto") -> str:
        """Give the load's database its first state again and return its name.

        `policy` is `LoadPlan.reset`: "always" clones the template again, "never" keeps what is there, "auto" keeps a
        database that is only read. Sessions of an earlier load in it are ended.
        """

    def begin(
        self,
        target: Target,
        dbname: str,
        plan: LoadPlan,
        directory: Path,
        *,
        instance: int = 0,
        gate: StartGate | None = None,
    ) -> RunningLoad:
        """Start the load. `directory` (made if missing) takes scripts, logs and output of this one run.

        `instance` is the number of this load generator among several, which begin together when their `gate` opens.
        """

    def examine(self, target: Target, dbname: str, load: LoadResult, outcome: Outcome) -> Examination:
        """Check the data that the load left, and count what only they can tell: after the window, before a reset.

        Reads only. A condition that the data break makes the run void.
        """

    def databases(self, target: Target) -> tuple[str, str]:
        """Return the names of the load's database and of the template, whether they are there or not."""

    def drop(self, target: Target, *, template: bool = False) -> tuple[str, ...]:
        """Drop the load's database, and the template if asked for; return the names of what was dropped.

        Refuses with EnvironmentUnsuitable to drop a database that pgdyno did not make.
        """
