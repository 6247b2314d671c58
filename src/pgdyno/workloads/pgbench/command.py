"""The pgbench command line, by what its version understands. Pure but for `find_pgbench`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.trial import PROTOCOLS, LoadPlan, check_rate
from pgdyno.owner.account import Account
from pgdyno.owner.runner import LocalRunner
from pgdyno.server import places
from pgdyno.server.binaries import find_build, readable_build
from pgdyno.targets.accounts import load_account
from pgdyno.targets.target import Target
from pgdyno.workloads.pgbench.log import PgbenchLogFormat, PgbenchLogReader
from pgdyno.workloads.result import Gap
from pgdyno.workloads.script import Script
from pgdyno.workloads.script_statements import sleeps

LOG_NAME = "transactions"
_KNOWN: dict[tuple[object, ...], Pgbench] = {}
"""Programs of this host that said their version, by path, account and what the file is: each run asks for one."""
RETRIES_SINCE = 15
EXIT_ON_ABORT_SINCE = 17


@dataclass(frozen=True, slots=True)
class Pgbench:
    """A pgbench program and its major version."""

    path: Path
    version: int


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """What a workload asks of pgbench beyond the plan.

    `max_tries`: how often a transaction is tried when it fails by serialisation or deadlock (from 15 on). Under a
    rate, a transaction that would start more than `latency_limit_ms` late is skipped; None skips none.
    """

    max_tries: int = 1
    latency_limit_ms: float | None = None
    paced: bool = False
    """Every second transaction of a client, from its first on, is a pause that its script makes, and no transaction."""


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Everything that a run's command line is made of. `variables` are pgbench's `-D`."""

    pgbench: Pgbench
    plan: LoadPlan
    scripts: tuple[Script, ...]
    variables: Mapping[str, str]
    options: DriverOptions
    directory: Path
    dbname: str
    account: Account | None = None
    is_ours: bool = False
    """pgbench is a program of the server's, with what a client needs of our environment."""
    fds: tuple[int, ...] = ()
    own_pause_s: float = 0.0
    """pgbench itself does not sleep between two transactions."""

    @property
    def log_format(self) -> PgbenchLogFormat:
        """Return the columns that the transaction logs will have."""
        options = self.options
        return PgbenchLogFormat(lag=self.plan.rate is not None, retries=options.max_tries != 1, paced=options.paced)

    def reader(self, pid: int) -> PgbenchLogReader:
        """Return what reads the transaction logs of the process."""
        return PgbenchLogReader(self.directory / LOG_NAME, pid, self.log_format)

    def argv(self) -> list[str]:
        """Return the argument list; secrets are in the environment only. Raise on a plan that pgbench cannot run."""
        check_plan(self.plan)
        plan = self.plan
        if self.options.paced and (plan.rate is not None or self.options.max_tries != 1):
            raise UsageError(
                "a load with keying and think times takes neither a rate nor max_tries",
                hint="Its users decide when they come: give more or fewer of them by --clients.",
            )
        words = [str(self.pgbench.path), "-n", "-M", plan.protocol, "-c", str(plan.clients)]
        words += ["-j", str(plan.jobs), "-T", str(math.ceil(plan.duration_s))]
        words += ["-P", "1", "--progress-timestamp", "-l", f"--log-prefix={LOG_NAME}"]
        words += [] if plan.seed is None else [f"--random-seed={plan.seed}"]
        words += [] if plan.rate is None else ["-R", f"{plan.rate:g}"]
        words += ["-C"] if plan.connect_each else []
        words += self._by_version()
        for name, value in self.variables.items():
            words += ["-D", f"{name}={value}"]
        for script in self.scripts:
            words += script.argument()
        return [*words, self.dbname]

    @property
    def pauses(self) -> bool:
        """Return True where a script sleeps: keying time, think time."""
        return any(sleeps(script) for script in self.scripts)

    def gaps(self) -> tuple[Gap, ...]:
        """Return none: pgbench gives up when its server goes away."""
        return ()

    def _by_version(self) -> list[str]:
        version, options = self.pgbench.version, self.options
        if options.max_tries != 1 and version < RETRIES_SINCE:
            raise EnvironmentUnsuitable(
                f"pgbench {version} cannot retry a transaction (max_tries {options.max_tries})",
                hint=f"Use the pgbench of PostgreSQL {RETRIES_SINCE} or later, or max_tries=1.",
            )
        words = ["--failures-detailed"] if version >= RETRIES_SINCE else []
        words += [f"--max-tries={options.max_tries}"] if options.max_tries != 1 else []
        words += ["--exit-on-abort"] if version >= EXIT_ON_ABORT_SINCE else []
        return words + ([] if options.latency_limit_ms is None else ["-L", f"{options.latency_limit_ms:g}"])


def check_plan(plan: LoadPlan) -> None:
    """Raise UsageError on a plan that no pgbench can run."""
    if plan.clients < 1 or plan.jobs < 1:
        raise UsageError(f"clients {plan.clients} and jobs {plan.jobs} must be at least 1")
    if plan.protocol not in PROTOCOLS:
        raise UsageError(f'protocol "{plan.protocol}" is not one of {", ".join(PROTOCOLS)}')
    if plan.rate is not None:
        check_rate(plan.rate)
    if plan.duration_s <= 0:
        raise UsageError(f"a run of {plan.duration_s:g} s measures nothing")


def init_argv(pgbench: Pgbench, *, scale: int, fillfactor: int, dbname: str) -> list[str]:
    """Return the argument list that fills pgbench's own tables.

    `pgbench` is the program to run. `scale` counts units of 100,000 accounts, and `fillfactor` says how full pages
    become, in per cent. `dbname` is the name of the database; how to connect is left to the environment. Data come from
    the client by COPY: on a local server that took 1.7 s for scale 20 where the server-side generation took 4.7 s
    (18.6). Vacuum is left to whoever asked for the tables.
    """
    return [str(pgbench.path), "-i", "-I", "dtgp", "-s", str(scale), "-F", str(fillfactor), dbname]


def parse_version(text: str) -> int:
    """Return the major version of `pgbench --version`. Raise EnvironmentUnsuitable when there is none in the text."""
    match = re.search(r"\(PostgreSQL\) (\d+)", text)
    if match is None:
        raise EnvironmentUnsuitable(f'"{text.strip()}" is not what pgbench --version writes')
    return int(match[1])


def find_pgbench(target: Target, override: Path | None = None) -> Pgbench:
    """Return the pgbench to use: `override` (a program), or the one that comes with the server's programs.

    Raises EnvironmentUnsuitable when there is none: some builds of PostgreSQL leave it out. Root's load runs as another
    account, which must be able to run it.
    """
    path = override or target.program("pgbench")
    account = load_account(target)
    user = None if account is None else account.name
    key = (path, user, _file(path) if isinstance(target.runner, LocalRunner) else None)
    if key in _KNOWN:
        return _KNOWN[key]
    try:
        said = target.runner.run([str(path), "--version"], user=user).stdout
    except EnvironmentUnsuitable:
        if user is None or override is not None:
            raise
        # A build below root's home: a copy that the load's account can run.
        build = find_build(target.runner, path.parent)
        path = readable_build(target.runner, build, user, places.cache_dir() / "builds").bin_dir / "pgbench"
        said = target.runner.run([str(path), "--version"], user=user).stdout
    found = Pgbench(path, parse_version(said))
    if key[-1] is not None:
        _KNOWN[key] = found
    return found


def _file(path: Path) -> tuple[int, ...] | None:
    """Return what tells a program from another one of its name, None where it cannot be looked at."""
    try:
        now = path.stat()
    except OSError:
        return None
    return now.st_dev, now.st_ino, now.st_mtime_ns, now.st_size
