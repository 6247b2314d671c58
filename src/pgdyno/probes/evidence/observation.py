"""What is read of a live target in a window: two snapshots, sessions and host once a second; plain data to keep."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pgdyno.errors import ConnectError, PgdynoError
from pgdyno.linux.host_texts import HostTexts, read_texts
from pgdyno.model.facts import Unknown
from pgdyno.model.shapes import plain, shaped
from pgdyno.outputs import ensure_folder, write_output
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import decode, read_bytes
from pgdyno.probes.evidence.snapshot import ActivitySession, Snapshot, busiest_databases, opened, read_snapshot
from pgdyno.probes.host.cpu import CpuShares
from pgdyno.probes.host.reading import HostCounters, parse_host
from pgdyno.targets.target import Target

NO_HOST = Unknown("the server's host is not this one; --host ssh://... reads it")
NO_SERVER = Unknown("no statistics of a server were read")
_EVERY_S = 1.0


@dataclass(slots=True)
class Observation:
    """The readings of a window. `first` is None when only one snapshot was taken."""

    first: Snapshot | None = None
    last: Snapshot | Unknown = NO_SERVER
    activity: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    host: list[tuple[float, HostTexts]] = field(default_factory=list)
    host_missing: Unknown = NO_HOST
    kernel_log: str | Unknown = field(default_factory=lambda: Unknown("the kernel's log was not read"))

    def readings(self) -> list[HostCounters]:
        """Return the host's readings, parsed; whose CPU time it was is not asked."""
        nobody = CpuShares(None, 0.0, 0.0)
        return [parse_host(t, nobody, texts) for t, texts in self.host]


def observe(
    target: Target,
    *,
    window_s: float,
    progress: Callable[[str], object] = lambda text: None,
) -> Observation:
    """Read a target over `window_s` seconds; 0 takes one reading. A server that is down leaves its part unknown."""
    seen = Observation()
    session: ActivitySession | None = None
    try:
        progress("reading the server's statistics")
        databases = _databases(target)
        if window_s > 0:
            seen.first = read_snapshot(target.postgres, edge="begin", databases=databases)
        session = ActivitySession(opened(target.postgres))
    except ConnectError as error:
        seen.first, seen.last = None, Unknown(f"the server gave no session: {error.detail or error.message}")
    try:
        _sample(seen, target, session, window_s, progress)
    finally:
        if session is not None:
            session.session.close()
    if session is not None:
        try:
            seen.last = read_snapshot(target.postgres, edge="end", databases=databases)
        except ConnectError as error:
            seen.last = Unknown(f"the session with the server was lost: {error.detail or error.message}")
    seen.kernel_log = _kernel_log(target)
    return seen


def _databases(target: Target) -> list[str]:
    """Return the databases that do most; none when the server does not tell."""
    try:
        return busiest_databases(target.postgres)
    except ConnectError:
        raise
    except PgdynoError:
        return []


def _sample(
    seen: Observation,
    target: Target,
    session: ActivitySession | None,
    window_s: float,
    progress: Callable[[str], object],
) -> None:
    began = time.time()
    steps = max(1, round(window_s / _EVERY_S)) if window_s > 0 else 0
    for step in range(steps + 1):
        due = began + window_s * step / steps if steps else began
        time.sleep(max(0.0, due - time.time()))
        texts = _host(target)
        if isinstance(texts, Unknown):
            seen.host_missing = texts
        else:
            seen.host.append((time.time(), texts))
        sample = None if session is None else session.sample()
        if sample is not None:
            seen.activity.append(sample)
        if step:
            progress(f"watching the load: {window_s * step / steps:.0f} of {window_s:.0f} s")


def _host(target: Target) -> HostTexts | Unknown:
    if target.remote is not None:
        try:
            return target.remote.read_host().texts
        except PgdynoError as error:
            return Unknown(f"the host could not be read: {error.message}")
    return read_texts() if target.local else NO_HOST


def _kernel_log(target: Target) -> str | Unknown:
    """Return the lines of this machine's kernel log that tell of kills; others may hold anything."""
    if not target.local:
        return Unknown("the kernel's log of another host was not read")
    try:
        done = target.runner.run(["dmesg"], timeout_s=5.0, check=False)
    except PgdynoError as error:
        return Unknown(f"the kernel's log cannot be read: {error.message}")
    if done.returncode != 0:
        return Unknown(f"the kernel's log cannot be read: {done.stderr.strip() or 'dmesg failed'}")
    return "".join(f"{line}\n" for line in done.stdout.splitlines() if "Killed process" in line)


def save(seen: Observation, folder: Path) -> None:
    """Write an observation into `folder` as JSON, one file a reading."""
    ensure_folder(folder)
    snapshots = [snapshot for snapshot in (seen.first, seen.last) if snapshot is not None]
    for number, snapshot in enumerate(snapshots, 1):
        if not isinstance(snapshot, Unknown):
            _write(folder / f"snapshot_{number}.json", snapshot)
    if seen.activity:
        _write(folder / "activity.json", seen.activity)
    for number, (t, texts) in enumerate(seen.host, 1):
        _write(folder / f"host_{number:04}.json", plain({"t": t, **asdict(texts)}))
    if isinstance(seen.kernel_log, str):
        write_output(folder / "kernel_log.txt", seen.kernel_log)


def load(folder: Path) -> Observation:
    """Read what `save` wrote. A file that is missing or damaged leaves its part unknown, with the reason."""
    seen = Observation(host_missing=Unknown(f'there is no reading of a host in "{folder}"'))
    snapshots = [_read(folder / f"snapshot_{number}.json") for number in (1, 2)]
    known = [snapshot for snapshot in snapshots if isinstance(snapshot, dict)]
    seen.first = known[0] if len(known) == 2 else None
    reasons = [snapshot for snapshot in snapshots if isinstance(snapshot, Unknown)]
    damaged = Unknown(f'the snapshots in "{folder}" are damaged')
    seen.last = known[-1] if known else (reasons or [damaged])[0]
    activity = _read(folder / "activity.json")
    if isinstance(activity, list):
        seen.activity = activity
    for path in sorted(folder.glob("host_*.json")):
        reading = _read(path)
        if isinstance(reading, dict):
            try:
                seen.host.append((float(reading["t"]), shaped(HostTexts, reading, strict=False)))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                seen.host_missing = Unknown(f'"{path}" is damaged: {error}')
    seen.kernel_log = captured_text(folder / "kernel_log.txt")
    return seen


def _write(path: Path, value: object) -> None:
    write_output(path, json.dumps(value, indent=None, separators=(",", ":")) + "\n")


def _read(path: Path) -> object:
    text = captured_text(path)
    if isinstance(text, Unknown):
        return text
    try:
        return load_json(text, finite=False)
    except ValueError:
        return Unknown(f'"{path}" is damaged')


LARGEST = 256 << 20
"""A snapshot of a server with many tables has some MB; a sadf file of a month has tens."""


def captured_text(path: Path) -> str | Unknown:
    """Return a file's text, or why there is none. Undecodable bytes are replaced."""
    try:
        return decode(read_bytes(path, at_most=LARGEST), lenient=True)
    except ValueError as error:
        return Unknown(f'"{path}" is {error}')
    except OSError as error:
        return Unknown(f'"{path}": {error.strerror}')
