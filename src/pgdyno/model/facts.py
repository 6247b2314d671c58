"""What is known of a server and its host at one moment; what is not known says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.model.environment import OF_SERVER, Environment
from pgdyno.model.shapes import Unknown as Unknown  # there, so that who needs no facts loads none
from pgdyno.model.shapes import plain

SUPPORTED_MAJORS = (13, 14, 15, 16, 17, 18)
"""The versions of PostgreSQL that pgdyno knows fully: docs/howto/support-the-next-postgresql.md."""


@dataclass(frozen=True, slots=True)
class NoLoad(Unknown):
    """What a load would show and cannot be known: the server was seen, and it was idle."""


@dataclass(frozen=True, slots=True)
class LittleLoad(NoLoad):
    """The server was not idle, and did so little that no setting could show: as much as monitoring alone makes."""


@dataclass(frozen=True, slots=True)
class SettingFact:
    """One row of `pg_settings`, as text in the server's own spelling.

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
    """The machine below the server. Memory in bytes; `memory_limit_bytes` is the smallest of cgroup and RAM.

    `cores` counts the CPUs that the server may run on, which are hardware threads; `physical_cores` and `sockets` are
    what those CPUs span.
    """

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
    huge_page_bytes: int | Unknown = field(default_factory=lambda: Unknown("it was not read"))
    physical_cores: int | Unknown = field(default_factory=lambda: Unknown("it was not read"))
    sockets: int | Unknown = field(default_factory=lambda: Unknown("it was not read"))
    threads_per_core: int | Unknown = field(default_factory=lambda: Unknown("it was not read"))
    data_block_size: int | Unknown = field(default_factory=lambda: Unknown("it was not read"))
    """The block size of the data directory's file system, in bytes."""
    container: str | Unknown | None = None
    """The container that the server runs in, None when there is no sign of one."""


@dataclass(frozen=True, slots=True)
class KernelFact:
    """One Linux knob on this machine; `value` is the kernel's own text, of a list the chosen word.

    `vartype`, `unit`, `minimum` and `maximum` mean what they mean in `pg_settings`; `choices` are the words that this
    kernel offers. `obstacle` says why this process cannot write it, None when it can.
    """

    name: str
    value: str | Unknown
    vartype: str = "integer"
    unit: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    obstacle: str | None = None

    def row(self) -> SettingFact | None:
        """Return it as a row like those of `pg_settings`, of context `kernel`; None when its value is unknown."""
        if isinstance(self.value, Unknown):
            return None
        return SettingFact(
            name=self.name,
            setting=self.value,
            unit=self.unit,
            vartype=self.vartype,
            context="kernel",
            source="kernel",
            min_val=None if self.minimum is None else str(self.minimum),
            max_val=None if self.maximum is None else str(self.maximum),
            enumvals=self.choices,
        )


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
    system_identifier: str | Unknown = field(default_factory=lambda: Unknown("it was not read"))
    """What initdb drew for this cluster; a physical copy of it has the same. Studies of older versions lack it."""

    @property
    def major(self) -> int:
        """Return the major version, such as 18."""
        return self.version_num // 10_000


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What would keep any value of ours for a knob from coming into force.

    `reason` is a clause whose subject is the knob (`is set by ALTER ROLE app SET work_mem = 64MB`), `remedy` a
    sentence with what takes it out of the way.
    """

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Host, server, every setting of the server, and the Linux knobs of the host; `kernel` is empty when not read.

    `obstacles` names the knobs that this session could not set, and `by_alter_system` those that it would set by
    ALTER SYSTEM because postgresql.auto.conf sets them (see targets/overrides.py).

    A study keeps them as they are. They are not made from an Inventory, which parses a whole capture: it counts
    processors with the quota of their group and words virtualization otherwise, so that the names of all stored
    environments would change. What both share is the Environment.
    """

    host: HostFacts
    server: ServerFacts
    settings: Mapping[str, SettingFact] = field(default_factory=dict)
    kernel: Mapping[str, KernelFact] = field(default_factory=dict)
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict)
    by_alter_system: frozenset[str] = frozenset()

    def row(self, name: str) -> SettingFact | None:
        """Return the row of a knob of either kind; None when server or kernel has none, or its value is unknown."""
        known = self.kernel.get(name)
        return self.settings.get(name) if known is None else known.row()

    def environment(self) -> Environment:
        """Return the environment that a measurement on this server has; the Linux knobs as they were found.

        They hold for the host and not for one server. The inventory of the same server has the same one.
        """
        server = {name: getattr(self.server, name) for name in OF_SERVER}
        return environment_of(self.host, server, {name: fact.value for name, fact in self.kernel.items()})

    def environment_hash(self) -> str:
        """Return 12 hex digits that name this environment: what studies keep and pages print."""
        return self.environment().name


def environment_of(host: HostFacts, server: Mapping[str, object], kernel: Mapping[str, str | Unknown]) -> Environment:
    """Return the environment of a host, of a server's facts by name (OF_SERVER), and of the Linux knobs' values."""
    parts = {"host": host, "server": server, "kernel": kernel}
    return Environment.of_image({name: plain(part) for name, part in parts.items()})
