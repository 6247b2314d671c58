"""What is known of a server and its host at one moment; what is not known says why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be had, with the reason in words; never replaced by a default."""

    reason: str

    def __str__(self) -> str:
        return f"unknown ({self.reason})"


@dataclass(frozen=True, slots=True)
class SettingFact:
    """One row of `pg_settings`, as text in the server's own spelling (13 to 18).

    `setting`, `boot_val` and `reset_val` are in base units (`unit`), as the view gives them.
    """

    name: str
    setting: str
    unit: str | None
    vartype: str
    context: str
    source: str
    min_val: str | None = None
    max_val: str | None = None
    enumvals: tuple[str, ...] = ()
    boot_val: str | None = None
    reset_val: str | None = None
    sourcefile: str | None = None
    sourceline: int | None = None
    pending_restart: bool = False


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The machine below the server. Memory in bytes; `memory_limit_bytes` is the smallest of cgroup and RAM."""

    architecture: str | Unknown
    kernel: str | Unknown
    cores: int | Unknown
    ram_bytes: int | Unknown
    memory_limit_bytes: int | Unknown
    page_size: int | Unknown
    cpu_model: str | Unknown
    virtualization: str | Unknown
    data_disk_free_bytes: int | Unknown
    data_filesystem: str | Unknown
    transparent_huge_pages: str | Unknown
    huge_pages_total: int | Unknown
    swap_total_bytes: int | Unknown


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server. `version_num` as `server_version_num`; `block_size` in bytes; paths are None when not shown to us."""

    version: str
    version_num: int
    block_size: int
    max_connections: int
    in_recovery: bool
    standbys: int | Unknown
    data_directory: str | Unknown
    config_file: str | Unknown
    data_checksums: bool | Unknown
    extensions: tuple[str, ...] = ()

    @property
    def major(self) -> int:
        """Return the major version, 13 to 18."""
        return self.version_num // 10_000


@dataclass(frozen=True, slots=True)
class Facts:
    """Host, server and every setting of the server."""

    host: HostFacts
    server: ServerFacts
    settings: Mapping[str, SettingFact] = field(default_factory=dict)

    def environment_hash(self) -> str:
        """Return 12 hex digits that name this environment.

        Covers what a measurement depends on and no knob can change: architecture, kernel, CPU, cores, memory,
        PostgreSQL version and build. Two runs in an unchanged environment share it; free disk space is left out.
        """
        host = asdict(self.host)
        host.pop("data_disk_free_bytes")
        server = {"version": self.server.version, "block_size": self.server.block_size}
        text = json.dumps({"host": host, "server": server}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
