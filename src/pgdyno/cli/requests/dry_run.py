"""What `--dry-run` of measuring verbs needs: the pgbench that would run, and a load in lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.errors import ExitCode
from pgdyno.outside.files import is_file

if TYPE_CHECKING:
    from pgdyno.cli.requests.study_request import StudyFlags
    from pgdyno.workloads.pgbench.command import Pgbench


def pgbench_of(flags: TargetFlags, *, look: bool = True) -> Pgbench:
    """Return the pgbench that would run: the target's, or that of the sandbox's build, without making a sandbox.

    Without `look` no server is asked.
    """
    from pgdyno.owner.runner import LocalRunner
    from pgdyno.server.binaries import client_bin_dir, find_build
    from pgdyno.workloads.pgbench.command import Pgbench, find_pgbench

    request = target_request(flags)
    if look and (request.dsn is not None or request.host is not None):
        from pgdyno.studies.session.opening import opened

        with opened(request) as target:
            return find_pgbench(target)
    build = find_build(LocalRunner(), request.sandbox_bin)
    folders = [build.bin_dir, client_bin_dir(build.bin_dir)]
    found = next((one / "pgbench" for one in folders if one is not None and is_file(one / "pgbench")), None)
    return Pgbench(found or Path("pgbench"), build.major)


def print_load(flags: StudyFlags) -> int:
    """Print what a run under these flags would be; a working-set class is not sized, as no host is looked at."""
    from pgdyno.cli.requests.study_request import load_of
    from pgdyno.cli.terminal.columns import print_script
    from pgdyno.workloads.dry_run import load_lines
    from pgdyno.workloads.working_set import without_class

    load = load_of(flags)
    parameters = without_class(load.parameters)
    sized = sorted(load.parameters.keys() - parameters.keys())
    notes = (
        f"# {name}={load.parameters[name]}: sized by host and server when the run begins; below, the default"
        for name in sized
    )
    print_script((*notes, *load_lines(load.workload, parameters, load.plan, pgbench_of(flags))))
    return int(ExitCode.OK)
