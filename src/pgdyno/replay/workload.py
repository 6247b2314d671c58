"""The workload `replay`: a window of a captured load, sent to a clone of the data that it began from."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.trial import SPEEDS, LoadPlan, WorkloadSpec
from pgdyno.owner.account import Account
from pgdyno.replay.foreign_tables import require_no_foreign_tables
from pgdyno.replay.records_reader import RecordsReader
from pgdyno.replay.reel import OwnDescriptor, Reel, ReelWindow, make_reel
from pgdyno.replay.target_facts import end_point_of, identify, passwords_of, require_another, require_room, room_of
from pgdyno.server import places
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trace.engine.plan import Clock, EndPoint, EnginePlan, Login
from pgdyno.trace.engines import choose_engine
from pgdyno.trace.gates import Order
from pgdyno.trace.parquet import read_meta
from pgdyno.trace.schema import TraceMeta
from pgdyno.trace.whole import require_own_file, require_replayable
from pgdyno.workloads import custom
from pgdyno.workloads.parameters import Parameter, Value
from pgdyno.workloads.pgbench.command import DriverOptions
from pgdyno.workloads.pgbench.log import PgbenchLogFormat
from pgdyno.workloads.pgbench.workload import PgbenchWorkload, WorkloadKind
from pgdyno.workloads.result import Gap
from pgdyno.workloads.script import Script, fingerprint

NAME = "replay"
RESPONSE, SERVICE = "response", "service"
PARAMETERS = (
    Parameter("trace", "", "the trace, as pgdyno trace build makes it; replay:TRACE is short for it"),
    Parameter("database", "", "database of the target with the data from before the capture; each clone is of it"),
    Parameter("init", "", "script for psql that makes those data instead, such as pg_dump writes"),
    Parameter("speed", 1.0, "how many times as fast as captured", low=SPEEDS[0], high=SPEEDS[1]),
    Parameter("clock", "schedule", "schedule: due at the captured moment; think: a captured pause after the answer"),
    Parameter("order", "session", "session, table or row: which statements wait for those of other sessions"),
    Parameter("from_s", 0.0, "begin of what is sent, in seconds of the trace", low=0),
    Parameter("to_s", 0.0, "its end; 0 for that of the trace", low=0),
    Parameter("read_only", False, "only what reads is sent, and the data are cloned once"),
    Parameter("role", "", "role of the target that opens every session instead of the captured ones"),
    Parameter("latency", RESPONSE, "response: from the due moment; service: from the sending"),
    Parameter("error_limit", 1.0, "a run with more answers unlike the captured ones is void, in percent", 0, 100),
    Parameter("engine", "", "compiled or python; empty for the compiled one where it can"),
)
_PATHS = ("trace", "init")
_NOWHERE = EndPoint("", 0)


@dataclass
class ReplayDriver:
    """What sends the load; the tape is made with the first of them."""

    trace: Path
    meta: TraceMeta
    window: ReelWindow
    engine: EnginePlan
    order: Order
    role: str
    by_service: bool
    error_limit_percent: float
    asked_engine: str | None
    _reel: list[Reel] = field(default_factory=list)

    def planned(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan with the sessions of the trace. Raises UsageError on what a replay cannot do."""
        for flag, is_given in (("--rate", plan.rate is not None), ("--connect-each", plan.connect_each)):
            if is_given:
                raise UsageError(f"a replay has no {flag}", hint="The trace says what is sent when; see -D speed.")
        if plan.instances > 1:
            raise UsageError("a replay has one load generator", hint="Leave --instances out.")
        whole_s = min(self.window.to_s or self.meta.seconds, self.meta.seconds) - self.window.from_s
        held_s = whole_s / self.engine.speed
        if self.engine.clock is Clock.SCHEDULE and plan.duration_s > held_s:
            raise UsageError(
                f"the trace holds {held_s:.1f} s at speed {self.engine.speed:g}, and a run lasts {plan.duration_s:g} s",
                hint="Give shorter --warmup and --measure, a slower -D speed, or a longer trace.",
            )
        return replace(plan, clients=max(self._made().asked.most_sessions, 1), jobs=1)

    def make_ready(self, target: Target, progress: Callable[[str], None]) -> None:
        """Prove that the load may be sent there, and make the tape."""
        self._prove(target)
        self._made(progress)

    def command(
        self, target: Target, dbname: str, plan: LoadPlan, directory: Path, account: Account | None
    ) -> ReplayCommand:
        """Return what one load is made of. Raises EnvironmentUnsuitable where the target may not or cannot have it.

        Every session is opened in database `dbname` of `target`, and sending ends after `plan.duration_s` seconds. The
        load writes its files to `directory` and runs as `account`; None is our own account.
        """
        self._prove(target)
        reel = self._made()
        users = dict.fromkeys(reel.asked.users, self.role) if self.role else {}
        names = tuple(dict.fromkeys(users.get(one, one) for one in reel.asked.users))
        try:
            require_room(room_of(target), target.name, names, (dbname,), reel.asked.most_sessions)
        except EnvironmentUnsuitable as error:
            error.hint = f"{error.hint} Or let one role of the target open all sessions: -D role=NAME."
            raise
        own = dict.fromkeys(reel.asked.databases, dbname)
        require_no_foreign_tables(self.trace, target.postgres, target.name, own)
        end_point = end_point_of(target)
        engine = replace(
            self.engine,
            end_point=end_point,
            login=Login(passwords_of(target, end_point, names, (dbname,))),
            max_seconds=plan.duration_s,
            users=users,
            databases=own,
            account="" if account is None else account.numbers,
        )
        program, _ = choose_engine(engine, asked=self.asked_engine)
        return ReplayCommand(reel, engine, program, plan, directory, self.by_service, self.error_limit_percent, account)

    def _prove(self, target: Target) -> None:
        require_another(identify(target, read_facts(target)), self.meta.system_identifier)

    def _made(self, progress: Callable[[str], None] = lambda _: None) -> Reel:
        if not self._reel:
            folder = places.ensure(places.state_dir() / "runs")
            self._reel.append(make_reel(self.trace, self.window, self.order, folder, progress))
        return self._reel[0]


def _make(parameters: Mapping[str, Value], pgbench: Path | None) -> PgbenchWorkload:
    trace, database, init = (str(parameters[name]) for name in ("trace", "database", "init"))
    if not trace:
        raise UsageError("workload replay needs a trace", hint="Name it: --workload replay:monday.parquet")
    if bool(database) == bool(init):
        raise UsageError(
            "workload replay needs the data from before the capture, from one place",
            hint="Name a database of the target, -D database=shop_before, or a script for psql, -D init=before.sql.",
        )
    meta = read_meta(Path(trace))
    require_own_file(Path(trace), meta)
    require_replayable(Path(trace), meta)
    window = ReelWindow(float(parameters["from_s"]), float(parameters["to_s"]), bool(parameters["read_only"]))
    end_s = min(window.to_s or meta.seconds, meta.seconds)
    if window.from_s >= end_s:
        raise UsageError(
            f"from_s {window.from_s:g} of workload replay is not before its end, at {end_s:g} s of the trace",
            hint=f"The trace lasts {meta.seconds:g} s: -D from_s and -D to_s lie within.",
        )
    clock = Clock(_one_of(parameters, "clock", tuple(Clock)))
    order = Order(_one_of(parameters, "order", tuple(Order)))
    latency = _one_of(parameters, "latency", (RESPONSE, SERVICE))
    engine = _one_of(parameters, "engine", ("", "compiled", "python"))
    read_only, speed = window.read_only, float(parameters["speed"])
    data = custom.data({"init": init, "scale": 0})
    hashed = {name: value for name, value in parameters.items() if name not in _PATHS}
    level = meta.captured_level * speed
    reads = "what reads of " if read_only else ""
    return PgbenchWorkload(
        identity=WorkloadSpec(
            NAME,
            dict(parameters),
            fingerprint(NAME, hashed, [meta.digest, data.identity]),
            f"{reads}the captured load {Path(trace).stem}, {speed:g} x its speed, the {level:g} % level",
            read_only,
            unit="statements",
            clock=clock.value,
        ),
        data=data,
        scripts=(),
        options=DriverOptions(),
        origin=database or None,
        driver=ReplayDriver(
            Path(trace),
            meta,
            window,
            EnginePlan(-1, -1, _NOWHERE, speed=speed, clock=clock),
            order,
            str(parameters["role"]),
            latency == SERVICE,
            float(parameters["error_limit"]),
            engine or None,
        ),
        pgbench=pgbench,
    )


def _one_of(parameters: Mapping[str, Value], name: str, known: tuple[str, ...]) -> str:
    given = str(parameters[name])
    if given not in known:
        raise UsageError(f'{name} "{given}" of workload replay is not one of {", ".join(filter(None, known))}')
    return given


KIND = WorkloadKind(NAME, "a captured load, sent again to a clone of its data", PARAMETERS, _make, subject="trace")


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
