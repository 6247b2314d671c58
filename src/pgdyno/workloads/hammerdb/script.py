"""HammerDB's own command line, run where it is installed, and the Tcl that it is given: a schema, or one timed test.

Nothing of HammerDB is part of pgdyno.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError, WorkloadError
from pgdyno.outside.files import read_text
from pgdyno.workloads.driver_process import DriverProcess

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
MARGIN_S = 300
"""How much longer than its own times a test may take: HammerDB starts its users one after another."""


@dataclass(frozen=True, slots=True)
class HammerTest:
    """A TPROC-C test by HammerDB. The password is not here: the script reads it from the environment."""

    host: str
    port: str
    superuser: str
    database: str = "tpcc"
    user: str = "tpcc"
    warehouses: int = 4
    users: int = 8
    rampup_min: int = 1
    duration_min: int = 2
    stored_procedures: bool = False
    all_warehouses: bool = False


def build_script(test: HammerTest) -> str:
    """Return the script that makes HammerDB's own schema."""
    builders = max(1, min(test.users, test.warehouses))
    return _script(
        [
            *_connection(test),
            f"diset tpcc pg_count_ware {test.warehouses}",
            f"diset tpcc pg_num_vu {builders}",
            f"diset tpcc pg_storedprocs {_word(test.stored_procedures)}",
            "buildschema",
        ]
    )


def run_script(test: HammerTest) -> str:
    """Return the script of one timed test, after which HammerDB ends."""
    timer = 60 * (test.rampup_min + test.duration_min) + MARGIN_S
    return _script(
        [
            *_connection(test),
            "diset tpcc pg_driver timed",
            "diset tpcc pg_total_iterations 10000000",
            f"diset tpcc pg_rampup {test.rampup_min}",
            f"diset tpcc pg_duration {test.duration_min}",
            f"diset tpcc pg_storedprocs {_word(test.stored_procedures)}",
            f"diset tpcc pg_allwarehouse {_word(test.all_warehouses)}",
            "diset tpcc pg_timeprofile true",
            "diset tpcc pg_vacuum true",
            "loadscript",
            f"vuset vu {test.users}",
            "vuset logtotemp 0",
            "vuset showoutput 1",
            "vucreate",
            "vurun",
            f"runtimer {timer}",
            "vudestroy",
        ]
    )


def _connection(test: HammerTest) -> list[str]:
    secret = "$::env(PGDYNO_HAMMERDB_PASSWORD)"  # noqa: S105 - where Tcl finds it, not what it is
    return [
        "dbset db pg",
        "dbset bm TPC-C",
        f"diset connection pg_host {_quoted('host', test.host)}",
        f"diset connection pg_port {_quoted('port', test.port)}",
        f"diset tpcc pg_superuser {_quoted('superuser', test.superuser)}",
        f"diset tpcc pg_superuserpass {secret}",
        "diset tpcc pg_defaultdbase postgres",
        f"diset tpcc pg_user {_quoted('user', test.user)}",
        f"diset tpcc pg_pass {secret}",
        f"diset tpcc pg_dbase {_quoted('database', test.database)}",
    ]


def _script(lines: list[str]) -> str:
    return "\n".join(["#!/bin/tclsh", *lines, "exit", ""])


def _word(value: bool) -> str:
    return "true" if value else "false"


def _quoted(what: str, text: str) -> str:
    """Return a word that Tcl reads as it is; refuse one that it would take for a command or a variable."""
    if not _PLAIN.fullmatch(text):
        raise UsageError(
            f'{what} "{text}" cannot be given to HammerDB',
            hint="Use letters, digits and . _ - / : @ only.",
        )
    return text


PROGRAM = "hammerdbcli"
BUILT = "TPCC SCHEMA COMPLETE"


def find_program(override: Path | None = None) -> Path:
    """Return HammerDB's command line. Raise EnvironmentUnsuitable where it is not installed."""
    found = shutil.which(str(override or PROGRAM))
    if found is None:
        raise EnvironmentUnsuitable(
            f'"{override or PROGRAM}" is not installed here',
            detail="pgdyno runs HammerDB, it does not bring it.",
            hint="Install HammerDB and name its program with --program /opt/HammerDB/hammerdbcli, "
            "or bring its log with pgdyno import hammerdb FILE.",
        )
    return Path(found).absolute()


def run_hammerdb(
    program: Path, script: str, directory: Path, *, name: str, password: str, timeout_s: float
) -> tuple[str, float]:
    """Run a script to its end and return what HammerDB said, with its CPU time in seconds.

    `program` is hammerdbcli, `script` the Tcl text that it runs. Script and output stay in `directory`, made if
    missing, as `name`.tcl and `name`.log. The `password` travels in the environment. HammerDB is ended after
    `timeout_s` seconds. Raises WorkloadError when it fails.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path, log = (directory / f"{name}.tcl").absolute(), (directory / f"{name}.log").absolute()
    path.write_text(script, encoding="utf-8")
    process = DriverProcess.start(
        [str(program), "tcl", "auto", str(path)],
        environment={"PGDYNO_HAMMERDB_PASSWORD": password, "TMP": str(directory.absolute())},
        directory=program.parent,  # it finds its own modules beside itself
        stdout=log,
        stderr=directory / f"{name}.stderr",
    )
    began = time.monotonic()
    try:
        ended = process.wait(timeout_s)
    finally:
        process.terminate()
    text = read_text(log, hint="It is the output of HammerDB.", lenient=True)
    if ended is None:
        raise WorkloadError(f"HammerDB did not end within {timeout_s:.0f} s and was ended", hint=f'See "{log}".')
    if ended != 0:
        raise WorkloadError(
            f"HammerDB ended with code {ended} after {time.monotonic() - began:.0f} s",
            detail="\n".join(text.strip().splitlines()[-3:]) or None,
            hint=f'See "{log}".',
        )
    return text, process.cpu_s or 0.0
