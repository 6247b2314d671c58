"""The flags that say what advice is made from, and those that stand for a server that cannot be asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.flags import FILE, FOLDER, Flags, flag
from pgdyno.cli.arguments.numbers import Time
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.studies.advice.advised import AdviceSource


class SourceFlags(Flags):
    """What advice is made from."""

    rule_files: tuple[Path, ...] = flag(
        "A folder of rule files; may be given again.", "--rules", type=FOLDER, metavar="DIR"
    )
    window: float | None = flag(
        "How long to watch.  [default: use the statistics since their last reset]", type=Time("s", 1)
    )
    logs: tuple[Path, ...] = flag("A server log; may be given again.", "--log", type=FILE, metavar="FILE")


def source(flags: SourceFlags) -> AdviceSource:
    """Return what advice is made from."""
    from pgdyno.studies.advice.advised import AdviceSource

    return AdviceSource(flags.rule_files, flags.window, flags.logs)


def check_stand_in(conf: Path | None, settings: Path | None, version: str | None) -> None:
    """Refuse flags that do not fit each other. A list of settings may come without a version, a postgresql.conf never.

    Raises UsageError.
    """
    if conf is not None and settings is not None:
        raise UsageError(
            "--pg-conf and --pg-settings cannot be used together", hint="Give only --pg-settings, which has more."
        )
    if conf is not None and version is None:
        raise UsageError("--pg-conf and --pg-version go together", hint="Write --pg-conf FILE --pg-version 16.")
    if version is not None and conf is None and settings is None:
        raise UsageError(
            "--pg-version is for --pg-conf and --pg-settings",
            hint="Write --pg-conf FILE --pg-version 16; a live server reports its own.",
        )
