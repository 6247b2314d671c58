"""Whether a server may be replayed to: proved to be another one than the source, and named by its owner. Pure.

A physical copy has the system identifier of its source. So one with that identifier is taken only where a marker lies
in its data directory that names this very directory, which was not the source's; a copy of a marked copy names another.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pgdyno.trace.schema import CapturedServer

MARKER = "pgdyno.copy"
"""A file in the data directory of a copy; PostgreSQL passes over names that it does not know."""
_LONGEST_MARKER = 4096


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """A data directory as the kernel knows it, at one boot of its host."""

    device: int
    inode: int
    boot: str


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server as it runs now: its directory if in reach, the others as `CapturedServer` has them."""

    started_at: str
    directory: DirectoryIdentity | None
    data_directory: str = ""
    address: str = ""
    port: int | None = None


@dataclass(frozen=True, slots=True)
class CopyMarker:
    """What says that a data directory is a copy, made for replays."""

    system_identifier: str
    device: int
    inode: int

    def text(self) -> str:
        """Return what stands in the file."""
        return json.dumps(asdict(self)) + "\n"


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """What is known of the server that is to be replayed to."""

    name: str
    system_identifier: str | None
    in_recovery: bool
    disposable: bool
    """A sandbox of our own."""
    is_allowed: bool
    """Its owner named it in the list of targets."""
    directory: DirectoryIdentity | None
    """None where its data directory is out of reach."""
    marker: CopyMarker | None

    @property
    def is_marked(self) -> bool:
        """Return whether the marker in its data directory names this very directory and cluster."""
        return (
            self.marker is not None
            and self.directory is not None
            and (self.marker.device, self.marker.inode) == (self.directory.device, self.directory.inode)
            and self.marker.system_identifier == self.system_identifier
        )


def read_marker(content: bytes) -> CopyMarker | None:
    """Return the marker of a file's bytes; None for anything else: an unreadable marker proves nothing."""
    try:
        found = json.loads(content[:_LONGEST_MARKER])
        marker = CopyMarker(**found)
    except (ValueError, TypeError):
        return None
    kinds = (type(marker.system_identifier), type(marker.device), type(marker.inode))
    return marker if kinds == (str, int, int) else None


def refusal(target: ReplayTarget, source_identifier: str | None, allowed_list: str) -> tuple[str, str] | None:
    """Return why the target may not be replayed to, and what to do; None where it may.

    `source_identifier` is that of the server whose load was captured, None where nobody knows; `allowed_list` is where
    the list of targets lies.
    """
    if target.in_recovery:
        return (
            "it is a standby: it takes no writes, and its primary may be the source",
            "Replay to a server of its own: a restored copy, promoted and marked.",
        )
    if target.is_marked:
        return None
    if target.disposable and target.system_identifier != source_identifier:
        return None
    if source_identifier is None:
        return (
            "the trace does not say which server it is of, so nothing proves that this is another one",
            "Build the trace from a capture of pgdyno, or name the source: pgdyno replay --source-identifier ID "
            "(pg_controldata prints it).",
        )
    if target.system_identifier is None:
        return (
            "its system identifier cannot be read, so nothing proves that it is not the source",
            "Connect as a role that may execute pg_control_system().",
        )
    if target.system_identifier == source_identifier:
        return (
            f"it has the system identifier of the source, {source_identifier}: it is that, or a copy without a mark",
            "Mark a copy with pgdyno replay --mark-copy, which proves beforehand that it is not the source.",
        )
    if not target.is_allowed:
        return (
            "it is not in the list of servers whose data may be changed",
            f'If the load may change its data, write the line "{target.name}" into {allowed_list}.',
        )
    return None


def source_doubt(
    target: ReplayTarget,
    source: ReplayTarget,
    captured_identifier: str | None,
    *,
    reached: str | None,
    captured_until: str,
) -> str | None:
    """Return why a server is not the one that was captured, so that nothing about it says what the target is.

    That a target is not the same server as some other one proves nothing: the running source is not its copy either.
    `captured_identifier` and `captured_until` are those of the trace, as far as it has them, and `reached` is the WAL
    position of `source` now. A server's own position never goes back, so one that has not come to the end of the
    capture is not the server that was captured: it is rather the copy, where the two were named the wrong way round.
    """
    if source.system_identifier is None:
        return "its system identifier cannot be read"
    if captured_identifier not in (None, source.system_identifier):
        return f"it has system identifier {source.system_identifier}, the source {captured_identifier}"
    if target.system_identifier != source.system_identifier:
        return (
            f"it has system identifier {source.system_identifier}, the target {target.system_identifier}, "
            f"so the target is no copy of it"
        )
    if source.in_recovery:
        return "it is a standby, and the target may be its primary"
    if source.marker is not None:
        return "it is marked as a copy itself, and the target may be what it is a copy of"
    if reached is not None and captured_until and _position(reached) < _position(captured_until):
        return f"its WAL is at {reached}, and the capture ended at {captured_until}"
    return None


def is_captured(server: RunningServer, captured: CapturedServer) -> bool:
    """Tell whether a server is surely the one that was captured.

    Its postmaster runs since before the capture, or its data directory is the very one, at the same boot of the host.
    """
    if captured.started_at and server.started_at == captured.started_at:
        return True
    found = server.directory
    return found is not None and (found.device, found.inode, found.boot) == (
        captured.device, captured.inode, captured.boot,
    )  # fmt: skip


def has_place(server: RunningServer, captured: CapturedServer) -> bool:
    """Tell whether a server is where the captured one was: at its address and port, in the directory of its path."""
    return (
        bool(captured.address and captured.data_directory)
        and (server.address, server.port, server.data_directory)
        == (captured.address, captured.port, captured.data_directory)
    )  # fmt: skip


def place_doubt(source: RunningServer, captured: CapturedServer, target: RunningServer | None = None) -> str | None:
    """Return why a server need not be the one that was captured; None where it is, or nothing of that one is known.

    Two copies of one source, named the wrong way round, differ in nothing else once the WAL of both is past the end of
    the capture: so it is not enough that nothing is against it. An inode outlives a boot of the host, the number of a
    device need not; a first inode of a volume is that of many, so the same one in `target` counts only with its path.
    """
    if (not captured.started_at and captured.inode is None) or is_captured(source, captured):
        return None
    told = (
        ("data directory", source.data_directory, captured.data_directory),
        ("port", source.port, captured.port),
        ("address", source.address, captured.address),
    )
    found = source.directory
    if found is not None and captured.inode is not None:
        if found.inode != captured.inode or found.boot == captured.boot:
            return (
                f"its data directory is inode {found.inode} on device {found.device}, and what was captured was inode "
                f"{captured.inode} on device {captured.device}"
            )
    elif not (source.data_directory and captured.data_directory):
        return "it was started after the capture, and nothing else that is known says that it is what was captured"
    for what, now, then in told:
        if now and then and now != then:
            return f"its {what} is {now}, and that of what was captured was {then}"
    other = None if target is None or target.data_directory != captured.data_directory else target.directory
    if other is not None and found is None and other.inode == captured.inode and not has_place(source, captured):
        return "the data directory of the target has the path and the inode of what was captured"
    return None


def _position(lsn: str) -> int:
    """Return the bytes of WAL before a position; 0 for what is none."""
    high, _, low = lsn.partition("/")
    try:
        return (int(high, 16) << 32) + int(low, 16)
    except ValueError:
        return 0
