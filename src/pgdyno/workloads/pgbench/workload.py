"""The one implementation of `Workload`: data, a mix of scripts, and what they ask of pgbench."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.record import Examination
from pgdyno.model.trial import LoadPlan, Outcome, WorkloadSpec
from pgdyno.owner.account import Account
from pgdyno.server.own_databases import DatabaseState, drop_owned, owned_state
from pgdyno.targets.accounts import load_account
from pgdyno.targets.target import Target
from pgdyno.workloads.dataset import DataSet, LoadSite
from pgdyno.workloads.gate import StartGate
from pgdyno.workloads.loop_command import LoopCommand, SessionLoop
from pgdyno.workloads.parameters import Parameter, Value
from pgdyno.workloads.pgbench.command import DriverOptions, RunCommand, check_plan, find_pgbench
from pgdyno.workloads.pgbench.load import LoadCommand, PgbenchLoad, prepare_directory
from pgdyno.workloads.protocol import RunningLoad
from pgdyno.workloads.result import LoadResult
from pgdyno.workloads.script import Script, fingerprint
from pgdyno.workloads.script_failure import script_error
from pgdyno.workloads.script_statements import statements
from pgdyno.workloads.statement_plans import PlanProbe, capture_plan, plan_records
from pgdyno.workloads.template import (
    APPLICATION_NAME,
    clone_template,
    end_old_sessions,
    load_name,
    make_template,
    require_createdb,
    template_name,
)

Examiner = Callable[[Target, str, LoadResult, Outcome], Examination]
Starter = Callable[[Target, str], None]
RESET_POLICIES = ("auto", "always", "never")


class LoadDriver(Protocol):
    """What sends a load in the place of pgbench."""

    def planned(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it drives it. Raises UsageError on one that it cannot."""

    def make_ready(self, target: Target, progress: Callable[[str], None]) -> None:
        """Do what is to be done once; raises where the load may not be sent to the target."""

    def command(
        self, target: Target, dbname: str, plan: LoadPlan, directory: Path, account: Account | None
    ) -> LoadCommand:
        """Return what one load is started with: its files in `directory`, its process as `account` (None: our own)."""


@dataclass(frozen=True, slots=True)
class PgbenchWorkload:
    """A load by pgbench.

    `scale` is that of pgbench's tables where clients meet on the rows of branches, else None. `hold_read_only` makes
    the server refuse writes to the load's sessions. `examiner` checks the data after each run, `starter` keeps in the
    database, before each run, what the examiner counts from. `loop` runs the load by sessions that come again instead
    of pgbench, `driver` by something else. `origin` is a database that the template is a copy of, before `data` are
    loaded into it. `pgbench` is a program to use instead of the server's own.
    """

    identity: WorkloadSpec
    data: DataSet
    scripts: tuple[Script, ...]
    options: DriverOptions
    variables: Mapping[str, str] = field(default_factory=dict)
    plan_probe: PlanProbe | None = None
    scale: int | None = None
    hold_read_only: bool = False
    examiner: Examiner | None = None
    starter: Starter | None = None
    loop: SessionLoop | None = None
    driver: LoadDriver | None = None
    origin: str | None = None
    pgbench: Path | None = None

    def spec(self) -> WorkloadSpec:
        """Return what is run."""
        return self.identity

    def prepare(self, target: Target, *, progress: Callable[[str], None]) -> None:
        """Make the template database, once. See `Workload.prepare`."""
        if self.driver is not None:
            self.driver.make_ready(target, progress)
        name = self._template(target, target.postgres.major())
        require_createdb(target.postgres)
        site = LoadSite(target, find_pgbench(target, self.pgbench), name, progress)
        make_template(
            target.postgres,
            name,
            workload=self.identity.name,
            load=lambda: self.data.load(site),
            progress=progress,
            analysed=self.data.analysed,
            origin=self.origin,
        )

    def bytes_to_load(self, target: Target) -> int:
        """Return about how many bytes `prepare` would load; 0 where they are there already, or nobody knows."""
        there = owned_state(target.postgres, self._template(target, target.postgres.major())) is DatabaseState.COMPLETE
        if there:
            return 0
        if self.origin is not None:
            (row,) = target.postgres.fetch("SELECT pg_database_size(%s::text) AS bytes", [self.origin])
            return int(str(row["bytes"]))
        return self.data.estimated_bytes or 0

    def planned(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as the workload's driver drives it. Raises UsageError on one that it cannot."""
        return plan if self.driver is None else self.driver.planned(plan)

    def kept_database(self, target: Target, policy: str) -> str | None:
        """Return the database that runs will find as an earlier study left it, None where they get a fresh clone."""
        name = self._load(target.postgres.major())
        there = owned_state(target.postgres, name) is DatabaseState.COMPLETE
        return name if there and self._keeps(policy) else None

    def _keeps(self, policy: str) -> bool:
        return policy == "never" or (policy == "auto" and self.identity.read_only)

    def reset(self, target: Target, *, policy: str = "auto") -> str:
        """Give the load's database its first state again and return its name. See `Workload.reset`."""
        if policy not in RESET_POLICIES:
            raise UsageError(f'reset "{policy}" is not one of {", ".join(RESET_POLICIES)}')
        postgres, (name, template) = target.postgres, self.databases(target)
        if self._keeps(policy) and owned_state(postgres, name) is DatabaseState.COMPLETE:
            end_old_sessions(postgres, name)
        else:
            clone_template(postgres, template, name)
        if self.starter is not None:
            self.starter(target, name)
        return name

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
        """Start pgbench in the directory. See `Workload.begin`.

        It drives the database `dbname` of `target` as `plan` says. `directory` is this run's own, made if missing.
        `instance` is the number of this load generator among several, from 0. With a `gate` it begins when that opens,
        with None at once.
        """
        plan = self.planned(plan)
        check_plan(plan)
        account = load_account(target)
        return PgbenchLoad(
            self._command(target, dbname, plan, prepare_directory(directory, account), account),
            self._environment(target, dbname, plan, account),
            instance=instance,
            scale=self.scale,
            plans=self._plans(target, dbname, plan),
            gate=gate,
            block_reads=target.block_reads,
            failure=None
            if self.driver is not None
            else lambda text: script_error(text, self.scripts, plan.protocol, target.postgres, dbname),
        )

    def examine(self, target: Target, dbname: str, load: LoadResult, outcome: Outcome) -> Examination:
        """Check the data that the load left and take its statements' plans. See `Workload.examine`.

        The data are in the database `dbname` of `target`. `load` is what the run brought back, and `outcome` what was
        made of it.
        """
        found = Examination() if self.examiner is None else self.examiner(target, dbname, load, outcome)
        planned = {plan.statement for plan in found.plans}
        taken = plan_records(target.postgres, dbname, statements(self.scripts))
        return replace(found, plans=(*found.plans, *(plan for plan in taken if plan.statement not in planned)))

    def drop(self, target: Target, *, template: bool = False) -> tuple[str, ...]:
        """Drop the load's database, and the template if asked for. Return the names of what was dropped."""
        load, data = self.databases(target)
        return tuple(name for name in ((load, data) if template else (load,)) if drop_owned(target.postgres, name))

    def databases(self, target: Target) -> tuple[str, str]:
        """Return the names of the load's database and of the template. See `Workload.databases`."""
        major = target.postgres.major()
        return self._load(major), self._template(target, major)

    def _command(
        self, target: Target, dbname: str, plan: LoadPlan, directory: Path, account: Account | None
    ) -> LoadCommand:
        if self.driver is not None:
            return self.driver.command(target, dbname, plan, directory, account)
        if self.loop is not None:
            return LoopCommand(self.loop, plan, self.scripts, directory, dbname, account)
        return RunCommand(
            pgbench=find_pgbench(target, self.pgbench),
            plan=plan,
            scripts=self.scripts,
            variables=self.variables,
            options=self.options,
            directory=directory,
            dbname=dbname,
            account=account,
        )

    def _plans(self, target: Target, dbname: str, plan: LoadPlan) -> tuple[str, ...]:
        if self.plan_probe is None:
            return ()
        return (capture_plan(target.postgres, dbname, self.plan_probe, protocol=plan.protocol),)

    def _environment(self, target: Target, dbname: str, plan: LoadPlan, account: Account | None) -> dict[str, str]:
        whole = account is not None
        variables = target.postgres.environment(dbname, whole=whole, host=plan.host) | {"PGAPPNAME": APPLICATION_NAME}
        if plan.host:
            variables.pop("PGHOSTADDR", None)  # it would count before the host
            variables["PGHOST"] = plan.host
        if self.hold_read_only:
            options = f"{variables.get('PGOPTIONS', '')} -c default_transaction_read_only=on"
            variables["PGOPTIONS"] = options.strip()
        return variables

    def _load(self, major: int) -> str:
        return load_name(fingerprint(self.identity.fingerprint, {"major": major}, []))

    def _template(self, target: Target, major: int) -> str:
        # By data alone: workloads and run parameters that need the same data share one template.
        known = {"major": major, **({} if self.origin is None else {"origin": self._origin_oid(target)})}
        return template_name(fingerprint(self.data.identity, known, []))

    def _origin_oid(self, target: Target) -> int:
        rows = target.postgres.fetch("SELECT oid::bigint AS oid FROM pg_database WHERE datname = %s", [self.origin])
        if not rows:
            raise EnvironmentUnsuitable(
                f'"{target.name}" has no database "{self.origin}"',
                hint="Restore the data from before the capture there, under this name.",
            )
        return int(str(rows[0]["oid"]))


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A name that `--workload` takes: what it is, its parameters, and how a workload is made from resolved ones."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Mapping[str, Value], Path | None], PgbenchWorkload]
    subject: str = ""
    """The parameter that may stand behind the name and a colon; empty where none may."""
