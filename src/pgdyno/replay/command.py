"""One load of the workload `replay`: what its child is started with, and how its records are read."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.model.trial import LoadPlan
from pgdyno.owner.account import Account
from pgdyno.replay.records_reader import RecordsReader
from pgdyno.replay.reel import OwnDescriptor, Reel
from pgdyno.trace.engine.plan import Clock, EnginePlan
from pgdyno.workloads.pgbench.log import PgbenchLogFormat
from pgdyno.workloads.result import Gap
from pgdyno.workloads.script import Script


@dataclass(frozen=True, slots=True)
class ReplayCommand:
    """Everything that one load is made of; stands where `RunCommand` stands for pgbench."""

    reel: Reel
    engine: EnginePlan
    program: tuple[str, ...]
    plan: LoadPlan
    directory: Path
    by_service: bool
    error_limit_percent: float
    account: Account | None = None
    is_ours: bool = True
    pauses: bool = True
    """Sessions wait for their moment."""
    own_pause_s: float = 0.0
    log_format: PgbenchLogFormat = field(default_factory=PgbenchLogFormat)
    _secret: OwnDescriptor = field(default_factory=lambda: OwnDescriptor(os.memfd_create("plan")))

    @property
    def scripts(self) -> tuple[Script, ...]:
        """Return the classes of statements."""
        return self.reel.scripts

    @property
    def fds(self) -> tuple[int, ...]:
        """Return the descriptors that the child inherits."""
        return (self.reel.tape.fileno(), self._secret.fileno())

    def argv(self) -> list[str]:
        """Write the plan where no other process can read it, and return the argument list."""
        os.write(self._secret.fileno(), json.dumps(dataclasses.asdict(self.engine)).encode())
        return [sys.executable, "-m", "pgdyno.replay.driver", *map(str, self.fds), *self.program]

    def reader(self, _: int) -> RecordsReader:
        """Return what reads the records of this load."""
        return RecordsReader(
            self.directory, self.reel, self.engine.speed, self.plan.duration_s, self.by_service,
            self.error_limit_percent, self.engine.clock is Clock.SCHEDULE,
        )  # fmt: skip

    def gaps(self) -> tuple[Gap, ...]:
        """Return none: a session that is lost stays lost."""
        return ()
