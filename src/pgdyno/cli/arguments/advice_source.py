"""The flags that say what advice is made from, for verbs that ask the advisor on the way to something else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import F, Flags, stack
from pgdyno.cli.arguments.numbers import Time

if TYPE_CHECKING:
    from pgdyno.studies.advice.advised import AdviceSource


def source_options(function: F) -> F:
    """Add the flags that say what advice is made from."""
    options = [
        click.option("--rules", "rule_files", multiple=True, metavar="DIR",
                     type=click.Path(path_type=Path, file_okay=False),
                     help="A folder of rule files; may be given again."),
        click.option("--window", type=Time("s", 1),
                     help="How long to watch.  [default: what the statistics hold since they were reset]"),
        click.option("--log", "logs", multiple=True, metavar="FILE",
                     type=click.Path(path_type=Path, exists=True, dir_okay=False),
                     help="A server log; may be given again."),
    ]  # fmt: skip
    return stack(function, options)


def source(flags: Flags) -> AdviceSource:
    """Return what advice is made from."""
    from pgdyno.studies.advice.advised import AdviceSource

    return AdviceSource(flags.paths("rule_files"), flags.number("window"), flags.paths("logs"))
