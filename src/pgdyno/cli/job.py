"""`pgdyno job run`: one job of another scheduler, recorded for `pgdyno batch import`."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli.arguments.flags import Flags, argument, flag, verb
from pgdyno.cli.arguments.numbers import Whole


@click.group("job")
def command() -> None:
    """Wrap jobs that another scheduler starts."""


class _RunFlags(Flags):
    words: tuple[str, ...] = argument("-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
    process: str = flag("The process that the job belongs to.", metavar="NAME", required=True)
    job: str = flag("The job.", "--name", metavar="NAME", required=True)
    record: Path = flag("The CSV file to which the job's row is added.", required=True, metavar="FILE")
    execution: int = flag("Number of the chain's execution.", default=1, type=Whole(1, 1_000_000))


@verb("run", command)
def run(flags: _RunFlags) -> int:
    """Run CMD as it is, and add when it began, ended and what it returned to a CSV file.

    No shell reads CMD. Its sessions have PROCESS/NAME as application_name. The exit code is CMD's own, 128 and the
    number of the signal where one ended it.
    """
    from pgdyno.studies.batch.wrapped import WrappedJob, run_wrapped

    return run_wrapped(WrappedJob(flags.process, flags.job, flags.execution), flags.words, flags.record)
