"""Capture a target whole: what is known of it, and what happens on it, for `advise --root`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.inventory.inspection import write_capture
from pgdyno.model.inventory import Inventory
from pgdyno.probes.evidence.gather import gather
from pgdyno.targets.target import Target
from pgdyno.units import plural

_EVIDENCE = "evidence"
_LOG = "logs/server.log"


def capture_target(
    target: Target, folder: Path, *, window_s: float | None, progress: Callable[[str], object]
) -> tuple[Inventory, Sequence[str]]:
    """Write inventory and evidence into a folder; return the inventory and a line for each part that was written.

    `target` is watched for `window_s` seconds; None keeps the statistics as they stand. The log's lines are kept
    without their statements and prefixes. What an earlier capture left of its evidence in `folder` is removed.
    `progress` takes each step in words. Raises ConnectError without a session, EnvironmentUnsuitable when the folder
    cannot be written.
    """
    progress("reading host and server")
    inventory = write_capture(target, folder)
    try:
        _forget(folder)
        evidence = gather(target, inventory, window_s=window_s or 0.0, progress=progress, folder=folder)
        written = [f'{plural(len(_files(folder)), "file")} in "{folder}"']
        kept = _files(folder / _EVIDENCE)
        words = "since the statistics were reset" if window_s is None else f"over {window_s:g} s"
        written.append(f"{_EVIDENCE}/: {', '.join(sorted(file.name for file in kept)) or 'nothing'}, {words}")
        log = folder / _LOG
        if log.is_file():
            lines = log.read_bytes().count(b"\n")
            written.append(f"{_LOG}: {lines} lines that are understood, without statements and prefixes")
        else:
            written.append(f"{_LOG}: nothing, {_why(evidence.log)}")
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'evidence cannot be written into "{folder}": {error.strerror or error}',
            hint="Name a folder that you may write to: --capture DIR.",
        ) from error
    return inventory, written


def _forget(folder: Path) -> None:
    """Remove the evidence of an earlier capture: its readings would be taken for readings of this window."""
    for file in (*_files(folder / _EVIDENCE), folder / _LOG):
        file.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _why(log: object) -> str:
    return getattr(log, "reason", "it has no line that is understood")
