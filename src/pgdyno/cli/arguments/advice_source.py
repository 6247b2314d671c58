"""The flags that say what advice is made from, for verbs that ask the advisor on the way to something else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.flags import FILE, FOLDER, Flags, flag
from pgdyno.cli.arguments.numbers import Time

if TYPE_CHECKING:
    from pgdyno.studies.advice.advised import AdviceSource


class SourceFlags(Flags):
    """What advice is made from."""

    rule_files: tuple[Path, ...] = flag(
        "A folder of rule files; may be given again.", "--rules", type=FOLDER, metavar="DIR"
    )
    window: float | None = flag(
        "How long to watch.  [default: what the statistics hold since they were reset]", type=Time("s", 1)
    )
    logs: tuple[Path, ...] = flag("A server log; may be given again.", "--log", type=FILE, metavar="FILE")


def source(flags: SourceFlags) -> AdviceSource:
    """Return what advice is made from."""
    from pgdyno.studies.advice.advised import AdviceSource

    return AdviceSource(flags.rule_files, flags.window, flags.logs)
