"""What is known of a host and the server on it, in the depth that advice needs; what is not known says why.

`model.facts` is the small part of it that every trial records. Bytes are bytes, CPUs are what the kernel schedules on
(hardware threads), cores are physical. Every field that could not be read is an `Unknown` with the reason, never a
default. An empty tuple or mapping means "there is none"; "it could not be listed" is `Unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgdyno.model.classes import Criticality, SizeClass, Utilization
from pgdyno.model.cpus import CpuRow
from pgdyno.model.environment import Environment
from pgdyno.model.facts import SettingFact, Unknown

UNREAD = Unknown("it was not read")


@dataclass(frozen=True, slots=True)
class Processor:
    """The processors. `cpus` counts those online; `threads_per_core` is the SMT level in force, `max_threads` the most.

    `machine` is the type and model (`3931`, `9105-22A`), `model` the processor's name. `last_level_caches` counts the
    separate last-level caches that the online CPUs use; `scattered` says that they span more than one of them, or more
    than one node, book or drawer. `polarization` is `horizontal` or `vertical` (s390x); `entitlement` counts CPUs by
    `high`, `medium`, `low`. `shared` says that the hypervisor shares the processors with other guests.
    """

    architecture: str | Unknown = UNREAD
    machine: str | Unknown = UNREAD
    model: str | Unknown = UNREAD
    cpus: int | Unknown = UNREAD
    cpus_configured: int | Unknown = UNREAD
    cores: int | Unknown = UNREAD
    threads_per_core: int | Unknown = UNREAD
    max_threads: int | Unknown = UNREAD
    sockets: int | Unknown = UNREAD
    books: int | Unknown = UNREAD
    drawers: int | Unknown = UNREAD
    numa_nodes: int | Unknown = UNREAD
    last_level_caches: int | Unknown = UNREAD
    scattered: bool | Unknown = UNREAD
    polarization: str | Unknown = UNREAD
    entitlement: Mapping[str, int] | Unknown = UNREAD
    shared: bool | Unknown = UNREAD
    features: frozenset[str] | Unknown = UNREAD
    governor: str | Unknown = UNREAD
    usable: int | Unknown = UNREAD
    """CPUs that the server may run on: its CPU set and CPU quota, rounded up."""
    layout: tuple[CpuRow, ...] | Unknown = UNREAD
    """Every CPU with its place, those offline too."""


@dataclass(frozen=True, slots=True)
class SwapArea:
    """A swap area: `kind` is `partition` or `file`."""

    name: str
    kind: str
    bytes: int
    used_bytes: int
    priority: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory in bytes. `limit_bytes` is the smallest of RAM and the cgroup limits above the server.

    `huge_page_bytes` is the default size and the one `huge_pages_total` counts; `huge_page_sizes` are all that this
    kernel offers. `huge_pages_supported` is False where the hardware has none (s390x without `edat`).
    """

    ram_bytes: int | Unknown = UNREAD
    available_bytes: int | Unknown = UNREAD
    limit_bytes: int | Unknown = UNREAD
    limited_by: str = "RAM"
    """`RAM`, `cgroup v1` or `cgroup v2`: what `limit_bytes` comes from."""
    page_size: int | Unknown = UNREAD
    huge_page_bytes: int | Unknown = UNREAD
    huge_page_sizes: tuple[int, ...] | Unknown = UNREAD
    huge_pages_supported: bool | Unknown = UNREAD
    huge_pages_total: int | Unknown = UNREAD
    huge_pages_free: int | Unknown = UNREAD
    huge_pages_reserved: int | Unknown = UNREAD
    thp_enabled: str | Unknown = UNREAD
    thp_defrag: str | Unknown = UNREAD
    swap: tuple[SwapArea, ...] | Unknown = UNREAD
    page_cache_bytes: int | Unknown = UNREAD
    group_available_bytes: int | Unknown = UNREAD
    """What is left below the tightest limit of the server's cgroups, their file cache counted as available."""
    group_oom_kills: int | Unknown = UNREAD
    """Processes that the kernel killed for lack of memory in the server's own cgroup, since that group was made."""


class SchedulerGeneration(StrEnum):
    """The process scheduler of the kernel: CFS from 2.6.23, EEVDF from 6.6."""

    CFS = "CFS"
    EEVDF = "EEVDF"


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel. `version` is (major, minor); `sysctls` holds every one that could be read, as text.

    `migration_cost_ns` is read by sysctl below 5.13 and from debugfs since; `migration_interface` names the file that
    would be written, `Unknown` with the reason (absent, EPERM) where there is none.
    """

    release: str | Unknown = UNREAD
    version: tuple[int, int] | Unknown = UNREAD
    distribution: str | Unknown = UNREAD
    scheduler: SchedulerGeneration | Unknown = UNREAD
    sysctls: Mapping[str, str] | Unknown = UNREAD
    migration_cost_ns: int | Unknown = UNREAD
    migration_interface: str | Unknown = UNREAD
    command_line: str | Unknown = UNREAD
    tuned_profile: str | Unknown = UNREAD
    sysctl_files: Mapping[str, Mapping[str, str]] | Unknown = UNREAD
    """What the files of /etc/sysctl.conf and sysctl.d say: path to names and values."""


@dataclass(frozen=True, slots=True)
class Virtualization:
    """What lies below. `layer` is `none`, `LPAR`, `z/VM`, `KVM`, `PowerVM`, `VMware`, `Xen`, `Hyper-V` or the like."""

    layer: str | Unknown = UNREAD
    container: str | Unknown | None = None
    """The container engine, None when there is no container."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A block device. `kind` is lsblk's TYPE (disk, part, lvm, crypt, mpath, raid1, loop, rom); `below` its parents.

    Sector sizes in bytes, `read_ahead_kb` in KiB. `storage` is `nvme`, `virtio`, `scsi`, `dasd`, `fcp`, `loop`, ...
    """

    name: str
    kind: str
    below: tuple[str, ...] = ()
    size_bytes: int | Unknown = UNREAD
    scheduler: str | Unknown = UNREAD
    schedulers: tuple[str, ...] = ()
    read_ahead_kb: int | Unknown = UNREAD
    rotational: bool | Unknown = UNREAD
    logical_sector: int | Unknown = UNREAD
    physical_sector: int | Unknown = UNREAD
    model: str | Unknown = UNREAD
    storage: str | Unknown = UNREAD
    mapper: str = ""
    """Its name below /dev/mapper, such as edbvg-edb_data; empty where it has none."""


@dataclass(frozen=True, slots=True)
class LogicalVolume:
    """A volume of LVM. `read_ahead` is `auto` or KiB as set; `effective_read_ahead_kb` what the kernel uses."""

    group: str
    name: str
    stripes: int | Unknown = UNREAD
    stripe_bytes: int | Unknown = UNREAD
    read_ahead: str | Unknown = UNREAD
    effective_read_ahead_kb: int | Unknown = UNREAD
    devices: tuple[str, ...] = ()
    """Physical volumes of its segments, such as /dev/vda."""
    segments: tuple[tuple[str, ...], ...] = ()
    """The physical volumes of each segment, in the order of the volume's extents."""

    @property
    def path(self) -> str:
        """Return /dev/GROUP/NAME."""
        return f"/dev/{self.group}/{self.name}"


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system; `block_size` is asked of the mount point, never of the device node."""

    point: str
    device: str
    filesystem: str
    options: tuple[str, ...] = ()
    block_size: int | Unknown = UNREAD
    size_bytes: int | Unknown = UNREAD
    free_bytes: int | Unknown = UNREAD


class Purpose(StrEnum):
    """What a place holds."""

    DATA = "data"
    WAL = "wal"
    TABLESPACE = "tablespace"
    LOG = "log"
    TEMP = "temp"
    BACKUP = "backup"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of the server and what lies below it: `stack` from the mounted device down, `disks` at the bottom."""

    purpose: Purpose
    path: str
    name: str = ""
    """The tablespace's name."""
    mount_point: str | Unknown = UNREAD
    stack: tuple[str, ...] | Unknown = UNREAD
    disks: frozenset[str] | Unknown = UNREAD
    encrypted: bool | Unknown = UNREAD


@dataclass(frozen=True, slots=True)
class ChannelDevice:
    """A CCW device of s390x (lscss, lsdasd). `chpids` are the channel paths; sizes in bytes."""

    bus_id: str
    kind: str = ""
    device: str | None = None
    status: str | None = None
    block_size: int | Unknown = UNREAD
    size_bytes: int | Unknown = UNREAD
    chpids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """A network interface. `physical_port` and `physical_function` tell virtual functions of one adapter apart."""

    name: str
    driver: str | Unknown = UNREAD
    speed_mbit: int | Unknown = UNREAD
    mtu: int | Unknown = UNREAD
    physical_port: str | Unknown = UNREAD
    physical_function: str | Unknown = UNREAD
    up: bool | Unknown = UNREAD


@dataclass(frozen=True, slots=True)
class HostInventory:
    """The machine that the server runs on."""

    processor: Processor = field(default_factory=Processor)
    memory: Memory = field(default_factory=Memory)
    kernel: Kernel = field(default_factory=Kernel)
    virtualization: Virtualization = field(default_factory=Virtualization)
    devices: tuple[BlockDevice, ...] | Unknown = UNREAD
    volumes: tuple[LogicalVolume, ...] | Unknown = UNREAD
    mounts: tuple[Mount, ...] | Unknown = UNREAD
    places: tuple[Place, ...] | Unknown = UNREAD
    channel_devices: tuple[ChannelDevice, ...] | Unknown = UNREAD
    network: tuple[NetworkInterface, ...] | Unknown = UNREAD
    adapters: tuple[str, ...] | Unknown = UNREAD
    """Disk adapters and paths as listed by lszfcp, lsscsi or multipath, one line each."""
    foreign_ipc: Mapping[str, int] | Unknown = UNREAD
    """System V objects that belong to others than this server: `shm`, `sem` and `msg` to their number."""

    def place(self, purpose: Purpose) -> Place | None:
        """Return the first place of a purpose; None when there is none or places are unknown."""
        places = () if isinstance(self.places, Unknown) else self.places
        return next((place for place in places if place.purpose is purpose), None)

    def device(self, name: str) -> BlockDevice | None:
        """Return a block device by the kernel's name or its name below /dev/mapper, with or without the folder."""
        devices = () if isinstance(self.devices, Unknown) else self.devices
        bare = name.removeprefix("/dev/").removeprefix("mapper/")
        return next((device for device in devices if bare in (device.name, device.mapper or device.name)), None)

    def mount(self, point: str) -> Mount | None:
        """Return the mount at a mount point."""
        mounts = () if isinstance(self.mounts, Unknown) else self.mounts
        return next((mount for mount in reversed(mounts) if mount.point == point), None)


@dataclass(frozen=True, slots=True)
class Database:
    """A database of the cluster and its size; `statistics_reset_s` is the age of its counters in seconds."""

    name: str
    size_bytes: int | Unknown = UNREAD
    statistics_age_s: float | Unknown = UNREAD
    frozen_xid_age: int | Unknown = UNREAD


@dataclass(frozen=True, slots=True)
class ServerInventory:
    """The server. `flavour` is `PostgreSQL` or `EPAS`; `settings` are all of pg_settings, base units: what the server
    gives a session that no ALTER ROLE, ALTER DATABASE or connection option is for.

    `overrides` are settings of ALTER ROLE and ALTER DATABASE: "role", "database" or "role in database" to names and
    values. `peak_memory_bytes` is VmPeak of the postmaster, with `peak_memory_file` it was read from;
    `huge_pages_needed` is what `postgres -C shared_memory_size_in_huge_pages` (15+) or the running server says.
    """

    version: str = ""
    version_num: int = 0
    flavour: str = "PostgreSQL"
    settings: Mapping[str, SettingFact] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Settings whose value for the server is not known because our session has one of its own, with the reason."""
    overrides: Mapping[str, Mapping[str, str]] | Unknown = UNREAD
    extensions: Mapping[str, str] | Unknown = UNREAD
    available_extensions: frozenset[str] | Unknown = UNREAD
    databases: tuple[Database, ...] | Unknown = UNREAD
    in_recovery: bool | Unknown = UNREAD
    standbys: int | Unknown = UNREAD
    slots: int | Unknown = UNREAD
    data_checksums: bool | Unknown = UNREAD
    uptime_s: float | Unknown = UNREAD
    shared_memory_bytes: int | Unknown = UNREAD
    huge_pages_needed: int | Unknown = UNREAD
    huge_pages_in_use: bool | Unknown = UNREAD
    peak_memory_bytes: int | Unknown = UNREAD
    peak_memory_file: str = ""
    semaphores: int | Unknown = UNREAD
    connections: int | Unknown = UNREAD
    relations: int | Unknown = UNREAD
    """Tables of the connected database."""
    log_files: tuple[str, ...] | Unknown = UNREAD
    disposable: bool = False
    """A sandbox of pgdyno's own: nothing in it is worth keeping."""
    same_host: bool | Unknown = UNREAD
    """Whether pgdyno, and with it the load that it makes, runs on the server's host."""

    @property
    def major(self) -> int:
        """Return the major version; 9 for 9.x."""
        return self.version_num // 10_000

    def text(self, name: str) -> str | Unknown:
        """Return a setting as pg_settings shows it."""
        fact = self.settings.get(name)
        if name in self.hidden:
            return Unknown(self.hidden[name])
        return fact.setting if fact else Unknown(f"{name} is not a setting of this server, or not shown to this role")


@dataclass(frozen=True, slots=True)
class Inventory:
    """Host and server at one moment. `origin` is `live`, `ssh://...`, or the folder of a capture.

    `taken_at` is ISO 8601 in UTC. `criticality` comes from a flag, because no server knows it.
    """

    host: HostInventory
    server: ServerInventory | Unknown
    taken_at: str = ""
    origin: str = "live"
    criticality: Criticality | Unknown = field(default_factory=lambda: Unknown("not stated; --criticality sets it"))
    missing: Mapping[str, str] = field(default_factory=dict)
    """What could not be read, by name, with the reason."""

    utilization: Utilization | Unknown = field(
        default_factory=lambda: Unknown("not stated, and one look does not show it; --utilization sets it")
    )
    environment: Environment | Unknown = UNREAD
    """The one that a study of this server would have: what `Facts.environment` returns at the same moment."""

    @property
    def environment_name(self) -> str | Unknown:
        """Return the name of the environment, which studies of this server have."""
        return self.environment if isinstance(self.environment, Unknown) else self.environment.name

    @property
    def size(self) -> SizeClass | Unknown:
        """Return the class of the databases' size; unknown when a size or the memory is."""
        memory = self.host.memory.limit_bytes
        if isinstance(self.server, Unknown):
            return self.server
        if isinstance(self.server.databases, Unknown):
            return self.server.databases
        if isinstance(memory, Unknown):
            return memory
        total = 0
        for database in self.server.databases:
            if isinstance(database.size_bytes, Unknown):
                return database.size_bytes
            total += database.size_bytes
        return SizeClass.SMALL if total * 4 <= memory else SizeClass.MEDIUM if total <= memory else SizeClass.LARGE
