"""See, before the server is touched, that it will accept the configuration that is in our file."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.control import PgCtl
from pgdyno.errors import ApplyError
from pgdyno.model.configuration import Configuration
from pgdyno.routes.dropin import DropIn
from pgdyno.routes.file_check import FileLine, complaints, read_files
from pgdyno.targets.target import Target


def check_files(target: Target, dropin: DropIn, configuration: Configuration, *, data_directory: str) -> None:
    """Ask the running server to read its files, ours among them, without applying them. No effect on the server.

    Raises ApplyError that names knob and value: with the server's own words when it rejects one, with file and line
    of the other place when a later line overrides one. `target` is the server that is asked, `dropin` the file that
    has the `configuration` already, `data_directory` the path as the server's own programs take it.
    """
    reading = read_files(target.postgres)
    rejected = reading.rejected()
    if rejected:
        raise _rejection(target, dropin, configuration, rejected, data_directory)
    for line, winner in reading.overridden(dropin.path):
        if line.name in configuration:
            raise ApplyError(
                f"{line.name} = {line.setting} would not be in force: overridden by {winner.place}",
                detail=f"That line sets {winner.setting}.",
                hint=_override_hint(winner),
            )


def _rejection(
    target: Target, dropin: DropIn, configuration: Configuration, rejected: Sequence[FileLine], data_directory: str
) -> ApplyError:
    said = complaints(
        target.runner,
        bin_dir=target.bin_dir,
        data_directory=data_directory,
        main_file=str(dropin.main),
        user=target.os_user,
        env=dict(target.control.env) if isinstance(target.control, PgCtl) else {},
    )
    line = next((line for line in rejected if line.name in configuration), rejected[0])
    if line.sourcefile != str(dropin.path):
        return ApplyError(
            f"the server cannot read its configuration: {line.place}",
            detail="; ".join(said) or line.error,
            hint="Somebody changed that file since the session began; fix that line first.",
        )
    about = [words for words in said if f'"{line.name}"' in words]
    return ApplyError(
        f"the server rejected {line.words}",
        detail="; ".join(about or said) or f"{line.place}: {line.error}",
        hint=f"pgdyno knobs {line.name} shows its range on this server.",
    )


def _override_hint(winner: FileLine) -> str:
    if str(winner.sourcefile).endswith("postgresql.auto.conf"):
        return f"Remove it with ALTER SYSTEM RESET {winner.name}, or leave this knob out."
    return f"Take that line out of {winner.sourcefile}, or leave this knob out."
