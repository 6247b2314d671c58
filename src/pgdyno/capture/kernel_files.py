"""Read what the kernel says in /proc and /sys, and what files of /etc say. Reads only; standard library only."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from pgdyno.capture.secrets import public_text
from pgdyno.linux.kernel_tree import LIVE, Tree, reason_of
from pgdyno.linux.small_files import read_small_bytes

FILES = (
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/swaps",
    "proc/cmdline",
    "proc/version",
    "proc/self/mountinfo",
    "proc/1/cgroup",
    "proc/sysvipc/shm",
    "proc/sysvipc/sem",
    "proc/sysvipc/msg",
    "etc/os-release",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/transparent_hugepage/defrag",
    "sys/kernel/debug/sched/migration_cost_ns",
    "sys/kernel/security/lockdown",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/smt/control",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
)
"""Asked of every machine: a reason is kept for each that is not there."""
SOME_HAVE = (
    "proc/sysinfo",
    "proc/ppc64/lparcfg",
    "proc/device-tree/model",
    "sys/devices/system/cpu/dispatching",
    "sys/hypervisor/type",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "run/systemd/container",
    "run/.containerenv",
)
OF_A_CPU = (
    "online",
    "polarization",
    "address",
    "configure",
    "topology/core_id",
    "topology/physical_package_id",
    "topology/book_id",
    "topology/drawer_id",
    "cache/index3/shared_cpu_list",
)
SYSCTL_FOLDERS = ("etc/sysctl.d", "run/sysctl.d", "usr/lib/sysctl.d")
OF_A_POOL = ("nr_hugepages", "free_hugepages", "resv_hugepages")
_HUGE = "sys/kernel/mm/hugepages"
_SKIPPED = ("net/ipv4/conf", "net/ipv4/neigh", "net/ipv6/conf", "net/ipv6/neigh", "dev/cdrom", "fs/binfmt_misc")
"""Per interface, per device: thousands of values, a secret among them (stable_secret), and no rule asks for one."""
_TRIGGERS = ("compact_memory", "stat_refresh", "drop_caches", "flush")
"""Files of /proc/sys that do something when they are touched."""
_SERIAL = ("Sequence Code", "Plant", "serial_number", "system_serial")

Found = tuple[dict[str, str], dict[str, str]]


def read_kernel_files(tree: Tree = LIVE) -> Found:
    """Return texts and reasons by key. Never raises."""
    texts: dict[str, str] = {}
    missing: dict[str, str] = {}
    for key in FILES:
        _keep(key, texts, missing, tree)
    for key in SOME_HAVE:
        _keep(key, texts, {}, tree)
    if tree.exists("/.dockerenv"):
        texts["run/.dockerenv"] = ""
    for name in tree.names(f"/{_HUGE}"):
        for file in OF_A_POOL:
            _keep(f"{_HUGE}/{name}/{file}", texts, missing, tree)
    for key in ("etc/sysctl.conf", *(f"{d}/{n}" for d in SYSCTL_FOLDERS for n in tree.names(f"/{d}"))):
        if key.endswith(".conf"):
            _keep(key, texts, {}, tree)
    for key in ("proc/sysinfo", "proc/ppc64/lparcfg"):
        if key in texts:
            texts[key] = "".join(line for line in texts[key].splitlines(keepends=True) if not line.startswith(_SERIAL))
    if "proc/cmdline" in texts:
        texts["proc/cmdline"] = public_text(texts["proc/cmdline"])
    steal = [line for line in _text("/proc/stat", tree).splitlines() if line.startswith("cpu ")]
    texts |= {"proc/stat": f"{steal[0]}\n"} if steal else {}
    texts["commands/sysctl.txt"] = "".join(f"{name} = {value}\n" for name, value in sysctls(tree))
    texts["commands/uname.txt"] = " ".join(_uname()) + "\n"
    texts["commands/getconf_pagesize.txt"] = f"{os.sysconf('SC_PAGE_SIZE')}\n"
    return texts, missing


def read_processor_folders(tree: Tree = LIVE) -> dict[str, str]:
    """Return the topology of every CPU from sysfs: for a host without lscpu."""
    texts: dict[str, str] = {}
    base = "sys/devices/system/cpu"
    for name in tree.names(f"/{base}"):
        if name.startswith("cpu") and name[3:].isdigit():
            for file in OF_A_CPU:
                _keep(f"{base}/{name}/{file}", texts, {}, tree)
    return texts


def sysctls(tree: Tree = LIVE) -> Iterator[tuple[str, str]]:
    """Yield every sysctl that this user can read, as `sysctl -a` names it, on one line each."""
    base = tree.local("/proc/sys")
    for folder, folders, files in os.walk(base):
        place = os.path.relpath(folder, base)
        folders[:] = sorted(name for name in folders if os.path.normpath(f"{place}/{name}") not in _SKIPPED)
        for name in sorted(files):
            if name in _TRIGGERS or name.endswith("_secret"):
                continue
            path = Path(folder, name)
            try:
                if path.stat().st_mode & 0o444:
                    text = read_small_bytes(path).decode(errors="replace")
                    yield os.path.normpath(f"{place}/{name}").replace("/", "."), "\t".join(text.split("\n")).strip()
            except OSError:
                continue  # this user may not, or this kernel has nothing behind the name


def _keep(key: str, texts: dict[str, str], missing: dict[str, str], tree: Tree) -> None:
    try:
        texts[key] = tree.read(f"/{key}")
    except OSError as error:
        missing[key] = reason_of(error, f"/{key}", tree)


def _text(path: str, tree: Tree) -> str:
    try:
        return tree.read(path)
    except OSError:
        return ""


def _uname() -> tuple[str, ...]:
    name = platform.uname()  # without the host's name
    return name.system, "host", name.release, name.version, name.machine
