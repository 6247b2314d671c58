"""Run HammerDB's own command line where it is installed. Nothing of it is part of pgdyno."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, WorkloadError
from pgdyno.outside.files import read_text
from pgdyno.workloads.driver_process import DriverProcess

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

    Script and output stay in the directory as `name`.tcl and `name`.log. The password travels in the environment.
    HammerDB is ended when the time is over. Raises WorkloadError when it fails.
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
