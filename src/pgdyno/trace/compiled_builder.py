"""Build a trace of csvlog by the compiled engine, which reads, pairs, sorts and writes; fingerprints are made here.

It takes logs as PostgreSQL writes them. Of any other it says what is odd, and the Python builder reads all of them
from the begin: what is damaged is judged and counted in one place.
"""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.outputs import open_new, output
from pgdyno.owner.hands import open_with_their_rights
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.trace.engines import COMPILED, doubt_about_compiled
from pgdyno.trace.fingerprints import fingerprint, tree
from pgdyno.trace.found import FoundLoad
from pgdyno.trace.logs import Log, is_packed
from pgdyno.trace.parquet import digest_of
from pgdyno.trace.refusals import Barred, judge
from pgdyno.trace.schema import TRACE, Lost
from pgdyno.trace.zones import offsets

_SEGMENT = 1 << 20
"""Bytes of a log that are paired at once: what stays in a processor's cache."""
_NO_TEXT = 0xFFFFFFFF
_NUMBER = struct.Struct("<I")
_END_TIMEOUT_S = 10.0


class OddLog(Exception):
    """A log that is not as PostgreSQL writes it, with what is odd."""


def unsuitable(
    logs: Sequence[Log], encodings: Mapping[str, str], commits: Path | None, compiled: Path = COMPILED
) -> str | None:
    """Return why the compiled builder cannot read these logs; None where it can.

    `encodings` has Python's names of encodings by database, empty where all of `logs` is UTF-8. `commits` is the file
    of a commit order, None without one. `compiled` is the engine's program.
    """
    if (doubt := doubt_about_compiled(compiled)) is not None:
        return doubt
    if odd := sorted({log.format for log in logs} - {"csvlog"}):
        return f"the compiled one reads csvlog alone, not {odd[0]}"
    if encodings:
        return "the compiled one reads UTF-8 alone"
    if commits is not None:
        return "the compiled one takes no commit order"
    if packed := [log for log in logs if is_packed(log.path)]:
        return f'the compiled one unpacks nothing, and "{packed[0].path}" is packed'
    return None


def build_compiled(
    logs: Sequence[Log],
    folder: Path,
    out: Path,
    *,
    log_timezone: str | None,
    segment: int,
    check: Callable[[FoundLoad], FoundLoad],
) -> tuple[FoundLoad, str]:
    """Write a trace of logs in the order of time; return what was found, and the SHA-256 of the file.

    `logs` are csvlog, the oldest first, and `out` is the Parquet file. `check` judges what was found before anything is
    written, and what it returns is returned. Rows wait in `folder`. `log_timezone` names the time zone of the logs,
    None for UTC; `segment` is how many bytes of a log are paired at once, 1 MiB at most. Raises OddLog for logs that it
    does not take, UsageError for a log that cannot be read or a zone that is unknown, EnvironmentUnsuitable where the
    disk is full or the engine ends.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(_opened(log.path)) for log in logs]
        spill = stack.enter_context(open_new(folder / "rows"))
        (folder / "rows").unlink()  # what is left of it goes with its descriptor
        written = stack.enter_context(output(out))
        plan = {
            "logs": [
                {"fd": file.fileno(), "begin": log.begin, "end": log.end}
                for log, file in zip(logs, opened, strict=True)
            ],
            "zones": offsets(log_timezone, int(logs[0].first[:4])),
            "segment": min(segment, _SEGMENT),
            "spill": spill.fileno(),
            "out": written.fileno(),
            "columns": [{"name": one.name, "type": one.type} for one in TRACE],
            "ours": Barred.OURS,
            "login": Barred.LOGIN,
            "replication": Barred.REPLICATION,
            "fastpath": Barred.FASTPATH,
            "fetch": Barred.FETCH,
            "begun": Barred.BEGUN,
        }
        process = subprocess.Popen(
            [COMPILED, "trace"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[file.fileno() for file in (*opened, spill, written)],
            env=inherited(ProgramKind.PROGRAM),
            cwd="/",
        )
        with process:
            try:
                found = _converse(process, plan, check)
            finally:
                process.kill()  # it has ended, unless we are the ones who end
        return found, digest_of(written)


def _opened(path: Path) -> IO[bytes]:
    try:
        return open_with_their_rights(path)
    except OSError as error:
        raise UsageError(f'log "{path}" cannot be read', detail=error.strerror or str(error)) from error


def _converse(
    process: subprocess.Popen[bytes], plan: Mapping[str, object], check: Callable[[FoundLoad], FoundLoad]
) -> FoundLoad:
    """Answer what the engine asks, until the trace is written."""
    assert process.stdin is not None
    assert process.stdout is not None
    found: FoundLoad | None = None
    try:
        _send(process.stdin, json.dumps(plan).encode())
        while kind := process.stdout.read(1):
            text = _read_text(process.stdout)
            if kind == b"K":
                _send(process.stdin, b"".join(map(_judged, _texts(text))))
            elif kind == b"S":
                found = check(_found(json.loads(text)))
                process.stdin.write(b"W")
                process.stdin.flush()
            elif kind == b"E" and found is not None:
                return found
            else:
                raise OddLog(text.decode("utf-8", "replace"))
    except (BrokenPipeError, EOFError):
        pass
    process.wait(_END_TIMEOUT_S)
    assert process.stderr is not None
    said = process.stderr.read(4096).decode("utf-8", "replace").strip()
    if "No space left" in said:
        raise EnvironmentUnsuitable(
            "no room is left on the disk of the trace",
            hint="Free some: while a trace is made it may take as much as its log does.",
        )
    raise EnvironmentUnsuitable(
        f"the engine that builds the trace ended with exit code {process.returncode}",
        detail=said or None,
        hint="Leave it out: --builder python.",
    )


def _send(stream: IO[bytes], part: bytes) -> None:
    stream.write(_NUMBER.pack(len(part)) + part)
    stream.flush()


def _read(stream: IO[bytes], count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise EOFError
    return found


def _read_text(stream: IO[bytes]) -> bytes:
    (length,) = _NUMBER.unpack(_read(stream, 4))
    return _read(stream, length)


def _texts(part: bytes) -> Iterator[str]:
    (count,) = _NUMBER.unpack_from(part)
    at = 4
    for _ in range(count):
        (length,) = _NUMBER.unpack_from(part, at)
        yield part[at + 4 : at + 4 + length].decode()
        at += 4 + length


def _judged(key: str) -> bytes:
    """Return fingerprint, reason and what is shown of a text without its constants."""
    verdict = judge(key, tree)
    reason, shown = (None, None) if verdict is None else (verdict.reason, verdict.shown)
    texts = (fingerprint(key), reason, shown)
    return b"".join(
        _NUMBER.pack(_NO_TEXT) if text is None else _NUMBER.pack(len(data := text.encode())) + data for text in texts
    )


def _found(told: dict[str, object]) -> FoundLoad:
    counts = {name: number for name, number in told.items() if isinstance(number, int)}
    counts["cut_values"] *= bool(counts["doubtful"])
    refused = told["refused"]
    assert isinstance(refused, dict)
    lost = Lost(
        truncated=counts["truncated"],
        unreadable=counts["unreadable"],
        without_params=counts["without_params"],
        unworded=counts["unworded"],
        gaps=counts["gaps"],
        cut_sessions=counts["cut_sessions"],
        cut_statements=counts["cut_statements"],
    )
    names = (
        "begin",
        "end",
        "sessions",
        "statements",
        "transactions",
        "errors",
        "lines",
        "alone",
        "whole",
        "quickest",
        "cut_values",
    )
    return FoundLoad(**{name: counts[name] for name in names}, lost=lost, refused=refused)
