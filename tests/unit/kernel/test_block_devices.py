"""From a folder to the devices below it: logical volumes, partitions, and file systems without a device."""

from __future__ import annotations

from pathlib import Path

from pgdyno.kernel import kernel
from pgdyno.kernel.kernel_facts import read_kernel
from pgdyno.linux.block_devices import find_places
from pgdyno.model import linux
from pgdyno.model.facts import Unknown
from simulated_kernel import SimulatedKernel, lvm


def test_the_devices_below_logical_volumes(tmp_path: Path) -> None:
    tree, data = lvm(tmp_path / "tree"), tmp_path / "data"
    (tmp_path / "log").mkdir()
    data.mkdir()
    (data / "pg_wal").symlink_to(tmp_path / "log")
    numbers = {data: (253, 0), data / "pg_wal": (253, 1)}
    places = find_places(data, tree=tree, device_number=numbers.__getitem__)
    assert places.mounted == ("dm-0", "dm-1")
    assert places.disks == ("vda", "vdb", "vdc", "vdd")
    facts = read_kernel(places, tree=tree)
    assert isinstance(facts[linux.READ_AHEAD].value, Unknown)
    assert "dm-0/queue/read_ahead_kb has 512" in str(facts[linux.READ_AHEAD].value)
    assert facts[linux.SCHEDULER].value == "mq-deadline"
    kernel.write(linux.SCHEDULER, "none", places, tree=tree)
    assert {path for path, _ in tree.written} == {f"/sys/block/{disk}/queue/scheduler" for disk in places.disks}


def test_the_queue_of_a_partition_is_that_of_its_disk(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path / "tree")
    tree.place("/sys/block/vda/vda2/partition", "2\n")
    tree.link("/sys/dev/block/254:2", "/sys/block/vda/vda2")
    tree.link("/sys/class/block/vda2", "/sys/block/vda/vda2")
    places = find_places(tmp_path, tree=tree, device_number=lambda _folder: (254, 2))
    assert (places.mounted, places.disks) == (("vda",), ("vda",))
    tree.place("/sys/block/md0/slaves/vda2", "")
    tree.link("/sys/dev/block/9:0", "/sys/block/md0")
    places = find_places(tmp_path, tree=tree, device_number=lambda _folder: (9, 0))
    assert (places.mounted, places.disks) == (("md0",), ("vda",))


def test_a_file_system_without_a_device_is_named(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path / "tree")
    places = find_places(tmp_path, tree=tree, device_number=lambda _folder: (0, 41))
    assert "not on one block device" in str(places.problem)
    missing = find_places(tmp_path / "gone", tree=tree)
    assert "no such file" in str(missing.problem)
