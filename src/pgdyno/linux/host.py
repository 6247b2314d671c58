"""Facts of this machine, from /proc, /sys and the cgroups that bound the server. Reads only; Linux only."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.linux.cgroups import memory_limits
from pgdyno.linux.meminfo import parse_meminfo
from pgdyno.linux.mountinfo import filesystem_of
from pgdyno.linux.small_files import read_leniently
from pgdyno.model.cpus import count_of_cpus
from pgdyno.model.facts import HostFacts, Unknown

_PROC = Path("/proc")
_SYS = Path("/sys")
_NO_LIMIT_V1 = 1 << 60
"""The v1 memory controller writes a number near 2^63 for "no limit"."""


def read_host(data_directory: Path | None, pid: int | None = None) -> HostFacts:
    """Return the facts of the machine that this process and the server `pid` run on. Memory in bytes.

    `cores` counts those that the server may run on. `data_directory` is None when the server hides its place.
    """
    memory = parse_meminfo(read_leniently(_PROC / "meminfo") or "")
    ram = memory.get("MemTotal", Unknown("/proc/meminfo has no MemTotal"))
    cpus = _usable_cpus(pid)
    places = cpu_places(cpus, read_leniently)
    return HostFacts(
        architecture=platform.machine(),
        kernel=platform.release(),
        cores=len(cpus),
        ram_bytes=ram,
        memory_limit_bytes=smallest(ram, _cgroup_limits(pid)),
        page_size=os.sysconf("SC_PAGE_SIZE"),
        cpu_model=cpu_model(read_leniently(_PROC / "cpuinfo") or ""),
        virtualization=_virtualization(),
        data_disk_free_bytes=_free(data_directory),
        data_filesystem=_filesystem(data_directory),
        transparent_huge_pages=chosen(read_leniently(_SYS / "kernel/mm/transparent_hugepage/enabled")),
        huge_pages_total=memory.get("HugePages_Total", Unknown("/proc/meminfo has no HugePages_Total")),
        swap_total_bytes=memory.get("SwapTotal", Unknown("/proc/meminfo has no SwapTotal")),
        huge_page_bytes=memory.get("Hugepagesize", Unknown("/proc/meminfo has no Hugepagesize")),
        physical_cores=places.cores,
        sockets=places.sockets,
        threads_per_core=places.threads_per_core,
        data_block_size=_block_size(data_directory),
        container=container_of(
            read_leniently(Path("/run/systemd/container")),
            [mark for mark in MARKS if Path(mark).exists()],
            read_leniently(_PROC / "1/cgroup"),
        ),
    )


def unknown_host(reason: str) -> HostFacts:
    """Return the facts of a host that we cannot look at; no number is made up."""
    unknown = HostFacts(**dict.fromkeys(HostFacts.__dataclass_fields__, Unknown(reason)))
    return replace(unknown, container=None)


def cpu_model(text: str) -> str | Unknown:
    """Return the processor's name from /proc/cpuinfo: x86-64 `model name`, Power `cpu`, s390x `processor 0: ...`."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    for name in ("model name", "cpu", "Model", "CPU part"):
        if fields.get(name):
            return fields[name]
    machine = re.search(r"machine = (\w+)", text)
    if machine:
        return f"{fields.get('vendor_id', 'IBM/S390')} machine {machine[1]}"
    return Unknown("/proc/cpuinfo names no model")


def chosen(text: str | None) -> str | Unknown:
    """Return the word in brackets of a kernel choice such as `always [madvise] never`."""
    match = re.search(r"\[(\w+)\]", text or "")
    return match[1] if match else Unknown("the kernel does not show the choice")


def smallest(ram: int | Unknown, limits: Iterable[int]) -> int | Unknown:
    """Return the smallest of RAM and the cgroup limits; unknown only when none is known."""
    known = [limit for limit in limits if 0 < limit < _NO_LIMIT_V1]
    if isinstance(ram, int):
        known.append(ram)
    return min(known) if known else ram


def _cgroup_limits(pid: int | None) -> list[int]:
    cgroups = read_leniently(_PROC / str(pid or "self") / "cgroup") or ""
    return memory_limits(cgroups, read_leniently(_PROC / "self/mountinfo") or "")


def _virtualization() -> str | Unknown:
    if "hypervisor" in (read_leniently(_PROC / "cpuinfo") or ""):
        product = (read_leniently(_SYS / "class/dmi/id/product_name") or "").strip()
        return f"virtual machine ({product})" if product else "virtual machine"
    hypervisor = (read_leniently(_SYS / "hypervisor/type") or "").strip()
    if hypervisor:
        return hypervisor
    sysinfo = read_leniently(_PROC / "sysinfo")
    if sysinfo is not None:  # s390x: always at least an LPAR, below it z/VM or KVM
        control = re.search(r"VM00 Control Program:\s*(\S+)", sysinfo)
        return control[1] if control else "LPAR"
    if platform.machine() == "x86_64":
        return "none"
    return Unknown(f"no sign of it is known for {platform.machine()}")


def container_of(named: str | None, marks: Collection[str], cgroups: str | None) -> str | None:
    """Return which container this is: systemd's own word, a file that an engine leaves, or a cgroup's path."""
    if named and named.strip():
        return named.strip()
    found = next((engine for mark, engine in MARKS.items() if mark in marks), None)
    return found or next((engine for sign, engine in _ENGINES.items() if sign in (cgroups or "")), None)


MARKS = {"/.dockerenv": "Docker", "/run/.containerenv": "Podman"}
"""Files that engines leave in a container."""
_ENGINES = {
    "kubepods": "Kubernetes",
    "docker": "Docker",
    "libpod": "Podman",
    "lxc": "LXC",
    "machine.slice/systemd-nspawn": "systemd-nspawn",
}


def _usable_cpus(pid: int | None) -> set[int]:
    try:
        return os.sched_getaffinity(pid or 0)
    except OSError:  # it is gone, or hidden from this user
        return os.sched_getaffinity(0)


def _block_size(folder: Path | None) -> int | Unknown:
    if folder is None:
        return Unknown("the server does not show its data directory to this role")
    try:
        return os.statvfs(folder).f_bsize
    except OSError as error:
        return Unknown(f'the file system of "{folder}" cannot be asked: {error.strerror}')


def _free(folder: Path | None) -> int | Unknown:
    if folder is None:
        return Unknown("the server does not show its data directory to this role")
    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        return Unknown(f'the file system of "{folder}" cannot be asked: {error.strerror}')


def _filesystem(folder: Path | None) -> str | Unknown:
    if folder is None:
        return Unknown("the server does not show its data directory to this role")
    try:
        resolved = folder.resolve()
    except OSError as error:
        return Unknown(f'"{folder}" cannot be resolved: {error.strerror}')
    return filesystem_of(resolved, read_leniently(_PROC / "self/mountinfo") or "")


CPUS = Path("/sys/devices/system/cpu")
_UNREAD = Unknown("the kernel does not show the topology of the CPUs")


@dataclass(frozen=True, slots=True)
class CpuPlaces:
    """Where some CPUs lie. `threads_per_core` counts the threads that are online, used here or not."""

    cores: int | Unknown = _UNREAD
    sockets: int | Unknown = _UNREAD
    threads_per_core: int | Unknown = _UNREAD


def cpu_places(cpus: Iterable[int], read: Callable[[Path], str | None]) -> CpuPlaces:
    """Return what the CPUs of these numbers span; `read` gives the text of a file, None where it cannot be read."""
    cores: set[tuple[str | None, ...]] = set()
    sockets: set[tuple[str | None, ...]] = set()
    threads: set[int] = set()
    for number in cpus:
        folder = CPUS / f"cpu{number}" / "topology"
        core, package = _word(read(folder / "core_id")), _word(read(folder / "physical_package_id"))
        if core is None or package is None:
            return CpuPlaces()
        above = (_word(read(folder / "drawer_id")), _word(read(folder / "book_id")))
        sockets.add((*above, package))
        cores.add((*above, package, core))
        threads.add(count_of_cpus(read(folder / "thread_siblings_list") or ""))
    if not cores or "-1" in {place[-1] for place in (*cores, *sockets)}:
        return CpuPlaces()
    each = threads.pop() if len(threads) == 1 else 0
    told = each or Unknown("the cores run different numbers of threads")
    return CpuPlaces(len(cores), len(sockets), told)


def _word(text: str | None) -> str | None:
    return text.strip() if text is not None and text.strip() else None
