"""A user's own pgbench scripts, weighted, on pgbench's tables, on a schema of the user's, or on both."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, ScriptError, UsageError, WorkloadError
from pgdyno.outside.files import read_text
from pgdyno.owner.inherited import ProgramKind
from pgdyno.targets.accounts import load_account
from pgdyno.workloads.dataset import LoadSite, PgbenchTables
from pgdyno.workloads.parameters import Parameter, Value
from pgdyno.workloads.script import BUILTIN_STATEMENTS, Script

PARAMETERS = (
    Parameter(
        "scripts", "", "pgbench scripts with weights, files or names of built-in ones: select-only@9,write.sql@1"
    ),
    Parameter("init", "", "script for psql that makes schema and data, run once"),
    Parameter("scale", 0, "scale of pgbench's own tables, loaded before init; 0 for none", low=0, high=100_000),
    Parameter("variables", "", "variables for the scripts: rows=1000,share=0.5"),
    Parameter("read_only", False, "the scripts only read: the server holds them to it, and data are cloned once"),
    Parameter(
        "rows_per_transaction", 0, "rows that a transaction handles, for rows per second; 0 when not known", low=0
    ),
)
_FAILED = re.compile(r"psql:<stdin>:(?P<line>\d+): (?:ERROR:  (?P<state>\w{5}): |error: )(?P<message>.*)")
_STATEMENT = re.compile(r"\nLINE \d+: (.*)")
_NOT_ITS_OWN = ("08", "53", "57", "58", "XX")
"""Classes of SQLSTATE (PostgreSQL's appendix A) for which a server, its host or a person is the cause."""
PATHS = ("scripts", "init")
"""The parameters that name files."""


@dataclass(frozen=True, slots=True)
class CustomData:
    """Data by a user's script for psql, on top of pgbench's tables when `scale` is not 0."""

    scale: int
    init: str | None

    @property
    def identity(self) -> str:
        """Return the text that determines the data: the script's content, not its path."""
        content = hashlib.sha256((self.init or "").encode()).hexdigest()
        return f"custom scale={self.scale} init={content}"

    @property
    def estimated_bytes(self) -> None:
        """Return None: what a user's script makes is not known beforehand."""
        return None

    @property
    def analysed(self) -> bool:
        """Return False: what a user's script leaves is not known."""
        return False

    def load(self, site: LoadSite) -> None:
        """Load pgbench's tables if asked for, then run the script by `psql -X -v ON_ERROR_STOP=1`."""
        if self.scale:
            PgbenchTables(self.scale).load(site)
        if self.init is not None:
            site.progress("running the init script")
            psql = site.target.program("psql")
            account = load_account(site.target)
            environment = site.target.postgres.environment(site.dbname, whole=account is not None)
            argv = [str(psql), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-d", site.dbname]
            argv += ["-f", "-"]  # with it psql names the line
            try:
                user = None if account is None else account.name
                runner = site.target.runner
                runner.run(argv, env=environment, input_text=self.init, user=user, kind=ProgramKind.CLIENT)
            except EnvironmentUnsuitable as error:
                raise _init_error(error.detail or "") from error


def _init_error(said: str) -> WorkloadError:
    """Return the error of an init script by what psql wrote: the script's own, by line and SQLSTATE, or another."""
    hint = "Fix the file of --init and retry: its database is created again."
    found = _FAILED.search(said)
    if found is None or (found["state"] or "").startswith(_NOT_ITS_OWN):
        return WorkloadError("the workload's init script failed", detail=said or None, hint=hint)
    told = [f"SQLSTATE {found['state']}"] if found["state"] else []
    told += [f"the statement is: {at[1].strip()}"] if (at := _STATEMENT.search(said, found.end())) else []
    where = f"init script, line {found['line']}"
    return ScriptError(f"{where}: {found['message'].strip()}", detail="; ".join(told) or None, hint=hint)


def data(parameters: Mapping[str, Value]) -> CustomData:
    """Return the data that these parameters ask for. Raise UsageError when the init script cannot be read."""
    init = str(parameters["init"])
    return CustomData(int(parameters["scale"]), _read(Path(init)) if init else None)


def scripts(parameters: Mapping[str, Value]) -> tuple[Script, ...]:
    """Read the scripts of the mix, in order. Raise UsageError on a missing file, a bad weight or two equal names."""
    entries = [entry.strip() for entry in str(parameters["scripts"]).split(",") if entry.strip()]
    if not entries:
        raise UsageError(
            'workload "custom" needs scripts', hint="Name them with weights: scripts=read.sql@9,write.sql@1"
        )
    mix = tuple(_script(entry) for entry in entries)
    names = [script.name for script in mix]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f'two scripts are named "{twice[0]}"', hint="Rename one: results are told apart by that name.")
    return mix


def variables(parameters: Mapping[str, Value]) -> dict[str, str]:
    """Return the variables for the scripts, `scale` among them when pgbench's tables were asked for."""
    found = {"scale": str(parameters["scale"])} if int(parameters["scale"]) else {}
    for entry in filter(None, (part.strip() for part in str(parameters["variables"]).split(","))):
        name, equals, value = entry.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UsageError(
                f'variable "{entry}" is not of the form name=value', hint="Write them as rows=1000,share=0.5."
            )
        found[name.strip()] = value.strip()
    return found


def _script(entry: str) -> Script:
    path, at, weight = entry.rpartition("@")
    if not at:
        path, weight = entry, "1"
    if not re.fullmatch("[0-9]{1,9}", weight) or int(weight) < 1:
        raise UsageError(
            f'weight "{weight}" of script "{path}" is not a whole number of 1 or more',
            hint="Write the script as read.sql@9, or read.sql for weight 1.",
        )
    if path in BUILTIN_STATEMENTS:
        return Script(path, int(weight))
    return Script(Path(path).stem, int(weight), _read(Path(path)))


def _read(path: Path) -> str:
    return read_text(path, "script", hint="Name a text file that this user may read.")
