"""What is known of Linux knobs on captured machines, and the reason in words where nothing is."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from pgdyno.kernel import kernel, kernel_smt
from pgdyno.kernel.kernel_facts import read_kernel, unknown_kernel
from pgdyno.linux.block_devices import KernelPlaces, nowhere
from pgdyno.model import linux
from pgdyno.model.facts import KernelFact, Unknown
from simulated_kernel import SimulatedKernel, lvm

DISK = KernelPlaces(("vda",), ("vda",), swap_file="/nowhere/pgdyno.swap")
COST = "/sys/kernel/debug/sched/migration_cost_ns"


def why(fact: KernelFact) -> str:
    assert isinstance(fact.value, Unknown)
    assert fact.obstacle is not None
    return fact.value.reason


def test_a_virtual_machine_on_x86_64(tmp_path: Path) -> None:
    facts = read_kernel(DISK, tree=SimulatedKernel(tmp_path))
    assert tuple(facts) == linux.LINUX_KNOBS
    assert facts[linux.THP_ENABLED].value == "madvise"
    assert facts[linux.THP_ENABLED].choices == ("always", "madvise", "never")
    assert facts[linux.SCHEDULER].choices == ("none", "mq-deadline", "kyber", "bfq")
    assert facts[linux.DIRTY_RATIO].obstacle is None
    assert "no cpufreq" in why(facts[linux.GOVERNOR])
    assert "one thread a core" in why(facts[linux.SMT])
    assert why(facts[linux.MIGRATION_COST]) == "this kernel has no debugfs"


def test_s390x_without_huge_pages(tmp_path: Path) -> None:
    tree = lvm(tmp_path)
    tree.place("/proc/sys/vm/nr_hugepages", "")
    tree.refused["/proc/sys/vm/nr_hugepages"] = errno.EOPNOTSUPP  # as captured: no edat
    facts = read_kernel(DISK, tree=tree)
    assert "not supported by this processor" in why(facts[linux.NR_HUGEPAGES])
    assert why(facts[linux.THP_ENABLED]) == "this kernel has no /sys/kernel/mm/transparent_hugepage/enabled"
    assert facts[linux.MIGRATION_COST].value == "500000"
    kernel.write(linux.MIGRATION_COST, "50000", DISK, tree=tree)
    assert tree.written[-1] == (COST, "50000")


def test_ppc64le(tmp_path: Path) -> None:
    facts = read_kernel(DISK, tree=SimulatedKernel(tmp_path, "ppc64le-6.1"))
    assert facts[linux.THP_ENABLED].value == "always"
    assert facts[linux.MIGRATION_COST].value == "500000"
    assert "notimplemented" in why(facts[linux.SMT])


@pytest.mark.parametrize(("release", "in_debugfs"), [("4.18.0-553.el8", False), ("5.12.19", False), ("5.13.0", True)])
def test_the_migration_cost_is_a_sysctl_below_5_13(tmp_path: Path, release: str, in_debugfs: bool) -> None:
    tree = SimulatedKernel(tmp_path, "s390x-6.1")
    tree.place("/proc/sys/kernel/osrelease", f"{release}\n")
    tree.place(linux.LINUX[linux.MIGRATION_COST].path, "500000\n")
    kernel.write(linux.MIGRATION_COST, "50000", DISK, tree=tree)
    assert [path for path, _ in tree.written] == [COST if in_debugfs else linux.LINUX[linux.MIGRATION_COST].path]


def test_debugfs_says_why_it_cannot_be_had(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path, "s390x-6.1")

    def reason() -> str:
        return why(read_kernel(DISK, tree=tree)[linux.MIGRATION_COST])

    tree.refused[COST] = errno.EPERM
    assert reason() == f"{COST}: operation not permitted (EPERM)"
    tree.place("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    assert reason().endswith("kernel lockdown is in mode integrity")
    tree.refused[COST] = errno.EACCES
    assert "only root may" in reason()
    tree.refused.clear()
    tree.local(COST).unlink()
    assert reason() == f"this kernel has no {COST}"
    tree.place("/proc/mounts", "")
    assert reason() == "debugfs is not mounted at /sys/kernel/debug"


def test_a_container_may_read_and_not_write(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    tree.locked["/proc/sys/vm/swappiness"] = errno.EROFS
    fact = read_kernel(DISK, tree=tree)[linux.SWAPPINESS]
    assert fact.value == "60"
    assert fact.obstacle == "/proc/sys/vm/swappiness is read-only here, as in a container"


def test_no_device_and_no_host(tmp_path: Path) -> None:
    facts = read_kernel(nowhere("it is hidden"), tree=SimulatedKernel(tmp_path))
    assert [why(facts[name]) for name in (linux.SCHEDULER, linux.READ_AHEAD, linux.SWAP_AREA)] == ["it is hidden"] * 3
    assert facts[linux.SWAPPINESS].value == "60"
    far = unknown_kernel("the server is not on this host")
    assert {why(fact) for fact in far.values()} == {"the server is not on this host"}


def test_governors_and_what_belongs_to_them(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    for policy in ("policy0", "policy4"):
        folder = f"/sys/devices/system/cpu/cpufreq/{policy}"
        tree.place(f"{folder}/scaling_governor", "powersave\n")
        tree.place(f"{folder}/scaling_available_governors", "performance powersave\n")
        tree.place(f"{folder}/energy_performance_preference", "balance_performance\n")
    assert read_kernel(DISK, tree=tree)[linux.GOVERNOR].choices == ("performance", "powersave")
    (image,) = kernel.capture((linux.GOVERNOR,), DISK, tree=tree)
    kernel.write(linux.GOVERNOR, "performance", DISK, tree=tree)
    tree.place("/sys/devices/system/cpu/cpufreq/policy4/energy_performance_preference", "performance\n")
    assert kernel.restore(image, tree=tree)
    assert kernel.read_value(linux.GOVERNOR, DISK, tree=tree) == "powersave"
    assert len(image.files) == 4


def power(root: Path, cores: int, threads: int, control: str) -> SimulatedKernel:
    tree = SimulatedKernel(root, "ppc64le-6.1")
    tree.place(kernel_smt.CONTROL, f"{control}\n")
    for core in range(cores):
        servers = b"".join((core * threads + n).to_bytes(4, "big") for n in range(threads))
        tree.place(f"/proc/device-tree/cpus/PowerPC,POWER10@{core}/ibm,ppc-interrupt-server#s", servers)
        for thread in range(threads):
            tree.place(f"/sys/devices/system/cpu/cpu{core * threads + thread}/online", "1\n")
    return tree


def test_smt_levels_of_power(tmp_path: Path) -> None:
    tree = power(tmp_path, cores=3, threads=8, control="notimplemented")
    fact = read_kernel(DISK, tree=tree)[linux.SMT]
    assert (fact.value, fact.choices, fact.obstacle) == ("8", ("1", "2", "4", "8"), None)
    before = tree.state()
    (image,) = kernel.capture((linux.SMT,), DISK, tree=tree)
    kernel.write(linux.SMT, "2", DISK, tree=tree)
    online = [n for n in range(24) if tree.read(f"/sys/devices/system/cpu/cpu{n}/online") == "1\n"]
    assert online == [0, 1, 8, 9, 16, 17]
    kernel.write(linux.SMT, "4", DISK, tree=tree)
    assert kernel.read_value(linux.SMT, DISK, tree=tree) == "4"
    assert kernel.restore(image, tree=tree)
    assert tree.state() == before
    assert len(kernel.undo_commands(image)) == 24


def test_smt_that_differs_between_cores_is_unknown_and_still_comes_back(tmp_path: Path) -> None:
    tree = power(tmp_path, cores=2, threads=4, control="notimplemented")
    tree.place("/sys/devices/system/cpu/cpu7/online", "0\n")
    before = tree.state()
    assert isinstance(kernel.read_value(linux.SMT, DISK, tree=tree), Unknown)
    (image,) = kernel.capture((linux.SMT,), DISK, tree=tree)
    kernel.write(linux.SMT, "1", DISK, tree=tree)
    assert kernel.restore(image, tree=tree)
    assert tree.state() == before


def test_smt_by_the_kernels_switch(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    tree.place(kernel_smt.CONTROL, "on\n")
    tree.place("/sys/devices/system/cpu/cpu1/online", "0\n")  # taken offline by an administrator
    assert read_kernel(DISK, tree=tree)[linux.SMT].choices == ("off", "on")
    (image,) = kernel.capture((linux.SMT,), DISK, tree=tree)
    kernel.write(linux.SMT, "off", DISK, tree=tree)
    tree.place("/sys/devices/system/cpu/cpu1/online", "1\n")  # as switching it on again does
    assert kernel.restore(image, tree=tree)
    assert tree.read("/sys/devices/system/cpu/cpu1/online") == "0\n"
    tree.place(kernel_smt.CONTROL, "forceoff\n")
    assert "until the next boot" in why(read_kernel(DISK, tree=tree)[linux.SMT])
    newer = power(tmp_path / "power", cores=1, threads=8, control="on")
    assert read_kernel(DISK, tree=newer)[linux.SMT].choices == ("off", "2", "4", "on")


def test_nothing_but_the_standard_library_is_imported() -> None:
    code = (
        "import sys, pgdyno.kernel.kernel, pgdyno.linux.block_devices, pgdyno.kernel.swap_file\n"
        "print([n for n, m in sys.modules.items() if 'site-packages' in str(getattr(m, '__file__', ''))\n"
        "       and not n.startswith(('pgdyno', '_', 'distutils', 'sitecustomize'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
