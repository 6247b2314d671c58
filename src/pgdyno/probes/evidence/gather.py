"""Gather the evidence of a live target, write it into a capture, or read it from one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pgdyno.capture.folder import leads_out
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.model.evidence import Evidence, LogEvidence
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.outputs import ensure_folder, write_output
from pgdyno.probes.evidence.derive import Files, derive
from pgdyno.probes.evidence.log_files import LogPart, find_parts, local_parts
from pgdyno.probes.evidence.log_reader import LogReader
from pgdyno.probes.evidence.named_files import (
    files_of,
    iostat_text,
    is_regular,
    named_parts,
    not_a_log,
    sadf_text,
)
from pgdyno.probes.evidence.observation import Observation, captured_text, load, observe, save
from pgdyno.probes.evidence.own_work import OwnWork, log_zone
from pgdyno.targets.target import Target

_KEPT_LINES = 20_000
Progress = Callable[[str], object]


def gather(
    target: Target,
    inventory: Inventory,
    *,
    window_s: float = 0.0,
    logs: Sequence[Path] | None = None,
    iostat: Path | None = None,
    sadf: Path | None = None,
    progress: Progress = lambda text: None,
    wal_device: str | None = None,
    matrix: Sequence[tuple[int, float]] = (),
    work: OwnWork | None = None,
    folder: Path | None = None,
) -> Evidence:
    """Return what happened on a live target, and write it into the capture in `folder`, if any: `evidence/`, `logs/`.

    `inventory` is that of the target. `window_s` seconds are watched; with 0 the figures hold since the statistics were
    reset. `progress` is given each step in words. `logs` None asks the server where its log is. `iostat` and `sadf`
    name files of whatever machine, None for none; `wal_device` is the WAL's device as they name it, None to take it
    from `inventory`. `matrix` are pairs of clients and transactions per second, which tell the knee; `work` are the
    studies of ours that ran there, None for none. Of the log a capture keeps lines that are understood, without
    statements and without the prefix, which may name persons. Only reads; pg_monitor is enough. What cannot be read is
    Unknown. Raises UsageError when a named file cannot be read.
    """
    files = iostat_text(iostat), sadf_text(sadf)
    _check_before(logs, inventory, window_s)
    seen = observe(target, window_s=window_s, progress=progress)
    progress("reading the server's log")
    parts = find_parts(target, inventory) if logs is None else named_parts(logs)
    kept_lines = 0 if folder is None else _KEPT_LINES
    log, kept = _read_log(parts, inventory, work, named=logs or (), keep_at_most=kept_lines)
    if folder is not None:
        save(seen, folder / "evidence")
    if folder is not None and not isinstance(log, Unknown):
        lines = kept or [f"LOG:  {log.lines} lines were read by pgdyno, and none of them is kept"]
        ensure_folder(folder / "logs")
        write_output(folder / "logs" / "server.log", "".join(f"{line}\n" for line in lines))
    return derive(seen, inventory, Files(log, *files, wal_device, matrix), work)


def evidence_of_capture(
    folder: Path | None,
    inventory: Inventory,
    *,
    logs: Sequence[Path] | None = None,
    iostat: Path | None = None,
    sadf: Path | None = None,
    wal_device: str | None = None,
    matrix: Sequence[tuple[int, float]] = (),
    work: OwnWork | None = None,
) -> Evidence:
    """Return the evidence that a capture holds. Missing and damaged files leave their part unknown.

    Whole logs of a server may be put into `logs/` by hand, and files of iostat and sadf beside them; files that are
    named come before those of the folder, and stand alone where `folder` is None. `logs`, `iostat` and `sadf` None take
    those of the folder; `inventory`, `wal_device`, `matrix` and `work` are as in `gather`. Raises UsageError when a
    named file cannot be read, else never.
    """
    of_iostat, of_sadf = iostat_text(iostat), sadf_text(sadf)
    parts: list[LogPart] | Unknown = Unknown("no log was named; --log FILE names one")
    if folder is None:
        seen = _none("no target was asked")
    else:
        has_evidence = (folder / "evidence").is_dir()
        why = f'"{folder}" holds no evidence; pgdyno inspect --capture with --window writes it'
        seen = load(folder / "evidence") if has_evidence else _none(why)
        of_iostat = _text_if_there(folder / "iostat.txt") if of_iostat is None else of_iostat
        of_sadf = _text_if_there(folder / "sadf.json") if of_sadf is None else of_sadf
        own = [path for path in files_of(folder / "logs") if not leads_out(path, folder)]
        parts = local_parts(own) if own else Unknown(f'there is no log in "{folder / "logs"}"')
    log, _ = _read_log(parts if logs is None else named_parts(logs), inventory, work, named=logs or ())
    return derive(seen, inventory, Files(log, of_iostat, of_sadf, wal_device, matrix), work)


def _none(why: str) -> Observation:
    missing = Unknown(why)
    return Observation(last=missing, host_missing=missing, kernel_log=missing)


def _check_before(logs: Sequence[Path] | None, inventory: Inventory, window_s: float) -> None:
    """Refuse a named log that is none before a window is waited for; a pipe can be read only once."""
    if not logs:
        return
    parts = named_parts(logs)
    if window_s and not isinstance(parts, Unknown):
        _read_log([part for part in parts if is_regular(part)], inventory, named=logs)


def _read_log(
    parts: list[LogPart] | Unknown,
    inventory: Inventory,
    work: OwnWork | None = None,
    *,
    named: Sequence[Path] = (),
    keep_at_most: int = 0,
) -> tuple[LogEvidence | Unknown, list[str]]:
    """Return what the log says, and lines to keep. Raises UsageError for a file of `named` that is no server's log."""
    if isinstance(parts, Unknown):
        return parts, []
    server = inventory.server
    language = Unknown("no server") if isinstance(server, Unknown) else server.text("lc_messages")
    reader = LogReader(None if isinstance(language, Unknown) else language, keep_at_most=keep_at_most)
    ours, zone = work or OwnWork(), log_zone(inventory)
    reader.is_ours = lambda line: ours.caused(line, zone)
    must_be_logs = {str(path) for path in named}
    try:
        for part in parts:
            before = reader.counts.lines
            is_log = reader.read(part.blocks(), starts_whole=not part.start)
            is_empty = not part.size and reader.counts.lines == before
            if part.path in must_be_logs and not (is_log or is_empty):
                raise not_a_log(part.path)
    except UsageError:
        raise
    except (OSError, PgdynoError) as error:
        return Unknown(f"the server's log could not be read to its end: {error}"), []
    if not reader.counts.lines:
        return Unknown("the log has no lines"), []
    return reader.evidence(tuple(part.label for part in parts)), reader.counts.kept


def _text_if_there(path: Path) -> str | None:
    text = captured_text(path)
    return None if isinstance(text, Unknown) else text
