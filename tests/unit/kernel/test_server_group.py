"""A bound around a server's processes, on a simulated cgroup tree of each version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.kernel import kernel
from pgdyno.linux.block_devices import KernelPlaces
from pgdyno.linux.kernel_tree import Tree
from pgdyno.model.facts import Unknown
from pgdyno.model.linux import SERVER_CPUS, SERVER_MEMORY

POSTMASTER, BACKEND, OURS = 10, 11, 99
PLACES = KernelPlaces(postmaster=POSTMASTER, digest="abc")
GROUP = "/sys/fs/cgroup/cpu/pgdyno-bound-abc"
V1 = (
    "30 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "31 1 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
V2 = "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


class CgroupTree(Tree):
    """Processes that move between groups as in version 1; a group that is made has the kernel's files."""

    def __init__(self, root: Path, mounts: str, groups: dict[int, str]) -> None:
        super().__init__(root)
        self.version_1 = "cpu" in mounts
        self.trees = {name: dict(groups) for name in (("cpu", "memory") if self.version_1 else ("",))}
        self.stuck: set[int] = set()
        self.put("/proc/self/mountinfo", mounts)
        for mount in mounts.splitlines():
            self.local(mount.split()[4]).mkdir(parents=True, exist_ok=True)
        for pid in groups:
            parent = POSTMASTER if pid == BACKEND else 1
            self.put(f"/proc/{pid}/stat", f"{pid} (postgres) S {parent} " + "0 " * 18)
            self.put(f"/proc/{pid}/task/{pid}/children", f"{BACKEND}" if pid == POSTMASTER else "")

    def put(self, path: str, text: str) -> None:
        self.local(path).parent.mkdir(parents=True, exist_ok=True)
        self.local(path).write_text(text)

    def read(self, path: str) -> str:
        if path.endswith("/cgroup"):
            pid = path.split("/")[2]
            own = OURS if pid == "self" else int(pid)
            return "".join(f"0:{name}:{groups[own]}\n" for name, groups in self.trees.items())
        if path.endswith("cgroup.procs"):
            groups, group = self._group(path)
            return "".join(f"{pid}\n" for pid, of in groups.items() if of == group)
        return super().read(path)

    def write(self, path: str, text: str) -> None:
        if not path.endswith("cgroup.procs"):
            super().write(path, text)
        elif int(text) not in self.stuck:
            groups, group = self._group(path)
            groups[int(text)] = group

    def _group(self, path: str) -> tuple[dict[int, str], str]:
        name, _, group = path.removesuffix("/cgroup.procs").removeprefix("/sys/fs/cgroup/").partition("/")
        return self.trees[name], f"/{group}"

    def make_folder(self, path: str) -> None:
        super().make_folder(path)
        for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.limit_in_bytes"):
            self.put(f"{path}/{name}", "-1\n")

    def remove_folder(self, path: str) -> None:
        assert not self.read(f"{path}/cgroup.procs"), "the kernel refuses this"
        shutil.rmtree(self.local(path))


def version_1(root: Path) -> CgroupTree:
    return CgroupTree(root, V1, {POSTMASTER: "/", BACKEND: "/", OURS: "/"})


@pytest.mark.requirement("R-SCA-01")
def test_the_server_is_bound_read_back_and_everything_is_as_before(tmp_path: Path) -> None:
    tree = version_1(tmp_path)
    images = kernel.capture((SERVER_CPUS, SERVER_MEMORY), PLACES, tree=tree)
    assert all(kernel.is_in_place(image, tree=tree) for image in images)
    kernel.write(SERVER_CPUS, "0.4", PLACES, tree=tree)
    kernel.write(SERVER_MEMORY, str(256 << 20), PLACES, tree=tree)
    assert kernel.read_value(SERVER_CPUS, PLACES, tree=tree) == "0.4"
    assert kernel.read_value(SERVER_MEMORY, PLACES, tree=tree) == str(256 << 20)
    kernel.write(SERVER_CPUS, "0.625", PLACES, tree=tree)
    assert tree.read(f"{GROUP}/cpu.cfs_quota_us").split() == ["62500"]
    for groups in tree.trees.values():
        assert groups[POSTMASTER] == groups[BACKEND] == "/pgdyno-bound-abc"
        assert groups[OURS] == "/", "what loads the server is outside of its bound"
    assert not kernel.is_in_place(images[0], tree=tree)
    assert [kernel.restore(image, tree=tree) for image in images] == [True, True]
    assert all(set(groups.values()) == {"/"} for groups in tree.trees.values())
    assert not tree.exists(GROUP)
    assert all(kernel.is_in_place(image, tree=tree) for image in images)
    assert [kernel.restore(image, tree=tree) for image in images] == [False, False]


def test_a_person_with_a_shell_can_take_it_away() -> None:
    image = kernel.KernelImage(SERVER_CPUS, ((GROUP, None),))
    assert kernel.undo_commands(image) == [
        f"for pid in $(cat {GROUP}/cgroup.procs); do echo $pid > /sys/fs/cgroup/cpu/cgroup.procs; done",
        f"rmdir {GROUP}",
    ]


def test_a_process_that_cannot_be_moved_leaves_no_bound(tmp_path: Path) -> None:
    tree = version_1(tmp_path)
    tree.stuck = {BACKEND}
    with pytest.raises(ApplyError, match=r"server\.cpus = 0\.4 did not come into force"):
        kernel.write(SERVER_CPUS, "0.4", PLACES, tree=tree)
    assert not tree.exists(GROUP)
    assert tree.trees["cpu"][POSTMASTER] == "/"


def test_a_server_that_was_started_anew_is_not_called_bound(tmp_path: Path) -> None:
    tree = version_1(tmp_path)
    kernel.write(SERVER_CPUS, "0.4", PLACES, tree=tree)
    tree.trees["cpu"] |= {POSTMASTER: "/", BACKEND: "/"}
    found = kernel.read_value(SERVER_CPUS, PLACES, tree=tree)
    assert isinstance(found, Unknown)
    assert "in no group of ours" in found.reason


def test_the_own_group_of_a_server_is_bound_in_version_2_and_one_shared_with_us_is_not(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path, V2, {POSTMASTER: "/db.service", BACKEND: "/db.service", OURS: "/user"})
    tree.put("/sys/fs/cgroup/db.service/cpu.max", "max 100000\n")
    tree.put("/sys/fs/cgroup/db.service/memory.max", "max\n")
    images = kernel.capture((SERVER_CPUS, SERVER_MEMORY), PLACES, tree=tree)
    kernel.write(SERVER_CPUS, "1.5", PLACES, tree=tree)
    kernel.write(SERVER_MEMORY, str(1 << 30), PLACES, tree=tree)
    assert tree.read("/sys/fs/cgroup/db.service/cpu.max") == "150000 100000\n"
    assert kernel.read_value(SERVER_CPUS, PLACES, tree=tree) == "1.5"
    assert [kernel.restore(image, tree=tree) for image in images] == [True, True]
    assert tree.read("/sys/fs/cgroup/db.service/cpu.max").split() == ["max", "100000"]
    tree.trees[""][OURS] = "/db.service/session"
    with pytest.raises(EnvironmentUnsuitable) as caught:
        kernel.capture((SERVER_CPUS,), PLACES, tree=tree)
    assert "shares its group" in str(caught.value.detail)


def test_a_server_that_is_not_seen_or_has_no_controller_is_refused(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path, V2, {POSTMASTER: "/db.service", BACKEND: "/db.service", OURS: "/user"})
    for places, why in ((KernelPlaces(), "not known"), (PLACES, "no group of the server has the controller cpu")):
        with pytest.raises(EnvironmentUnsuitable) as caught:
            kernel.capture((SERVER_CPUS,), places, tree=tree)
        assert why in str(caught.value.detail).lower()
