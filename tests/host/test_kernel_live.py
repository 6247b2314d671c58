"""Linux knobs on the real kernel: written, read back, and everything exactly as before, by us or by hand."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kernel_case import says, with_memory
from pgdyno.capture.texts import Capture
from pgdyno.errors import ApplyError
from pgdyno.inventory.memory import read_memory
from pgdyno.kernel import kernel, swap_file
from pgdyno.kernel.kernel import KernelImage
from pgdyno.kernel.kernel_facts import read_kernel
from pgdyno.linux.block_devices import KernelPlaces, disks_below, find_places
from pgdyno.model import linux
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer

pytestmark = [
    pytest.mark.host,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="the kernel's knobs are root's"),
]
MB = 1 << 20
VOLATILE = {
    "dentry-state": "counts the kernel's directory cache",
    "file-nr": "counts open files",
    "inode-nr": "counts inodes",
    "inode-state": "counts inodes",
    "entropy_avail": "moves with the pool of random numbers",
    "random.uuid": "is drawn anew at each read",
    "ns_last_pid": "is the last process number",
    "nf_conntrack_count": "counts connections",
    "pty.nr": "counts terminals",
    "aio-nr": "counts asynchronous requests",
    "perf_event_max_sample_rate": "is lowered by the kernel when its interrupts take long, as on a busy machine",
    "max_newidle_lb_cost": "is measured anew by the scheduler, in kernels before 5.13",
    "hung_task_detect_count": "counts tasks that a disk made wait",
    "quota.syncs": "counts the file systems that were written to their disks, as whoever unmounts one has them",
    "min_free_kbytes": "is computed anew, from the watermarks of the moment, when transparent huge pages are switched",
}
"""Sysctls that change by themselves, with what moves them; all others must be equal."""
HARMLESS = {
    linux.DIRTY_BYTES: str(4096 * MB),
    linux.DIRTY_RATIO: "19",
    linux.BACKGROUND_BYTES: str(1024 * MB),
    linux.BACKGROUND_RATIO: "9",
    linux.NR_HUGEPAGES: "4",
    linux.SWAPPINESS: "59",
    linux.OVERCOMMIT_MEMORY: "1",
    linux.OVERCOMMIT_RATIO: "51",
    linux.MIGRATION_COST: "400000",
    linux.AUTOGROUP: "0",
    linux.THP_ENABLED: "never",
    linux.THP_DEFRAG: "defer",
}
"""A value for each knob that no neighbour of this test notices."""
SECOND = {linux.THP_ENABLED: "madvise", linux.THP_DEFRAG: "madvise", linux.AUTOGROUP: "1", linux.OVERCOMMIT_MEMORY: "0"}
"""The value where that one stands already; a number becomes the next one."""


def state() -> dict[str, str]:
    """Return every sysctl and every queue file of this machine but those that move by themselves."""
    listed = subprocess.run(["sysctl", "-a"], capture_output=True, text=True, check=False).stdout
    found = dict(line.split(" = ", 1) for line in listed.splitlines() if " = " in line)
    found = {name: text for name, text in found.items() if not name.endswith(tuple(VOLATILE))}
    files = [*Path("/sys/block").glob("*/queue/*"), *Path("/sys/block").glob("*/queue/iosched/*")]
    huge = Path("/sys/kernel/mm/transparent_hugepage")  # not its stats and khugepaged, which count
    for path in [*files, *huge.glob("*"), *huge.glob("hugepages-*/*")]:
        if path.is_file():
            with suppress(OSError):
                found[str(path)] = path.read_text()
    return found


@contextmanager
def put_back(names: list[str], places: KernelPlaces) -> Iterator[tuple[KernelImage, ...]]:
    images = kernel.capture(names, places)
    try:
        yield images
    finally:
        for image in images:
            kernel.restore(image)


@contextmanager
def loop_device(file: Path) -> Iterator[str]:
    """Make a block device of a file, until the block ends; its name."""
    with file.open("wb") as opened:
        opened.truncate(64 * MB)
    made = subprocess.run(["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"this machine gives no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    places = KernelPlaces((Path(device).name,), (Path(device).name,))
    try:
        with put_back([linux.SCHEDULER, linux.READ_AHEAD], places):  # the number is given to the next user as it is
            yield Path(device).name
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@pytest.mark.requirement("R-KRN-03", "R-KRN-10")
@pytest.mark.parametrize("by_hand", [False, True], ids=["restore", "by hand"])
@pytest.mark.parametrize("name", list(HARMLESS))
def test_a_knob_is_written_read_back_and_put_back(name: str, by_hand: bool, tmp_path: Path) -> None:
    places = find_places(tmp_path)
    fact = read_kernel(places)[name]
    if isinstance(fact.value, Unknown) or fact.obstacle is not None:
        pytest.skip(f"{name}: {fact.obstacle}")
    value = HARMLESS[name] if fact.value != HARMLESS[name] else SECOND.get(name) or str(int(HARMLESS[name]) + 1)
    before = state()
    with put_back([name], places) as (image,):
        kernel.write(name, value, places)
        assert kernel.read_value(name, places) == value
        assert not kernel.is_in_place(image)
        if name in linux.COUNTERPARTS:
            assert kernel.read_value(linux.COUNTERPARTS[name], places) == "0"
        if by_hand:
            subprocess.run(["sh", "-euc", "\n".join(kernel.undo_commands(image))], check=True)
        else:
            assert kernel.restore(image) is True
        assert kernel.is_in_place(image)
        assert kernel.restore(image) is False
    assert state() == before


def test_bytes_that_counted_come_back_and_so_does_nothing_at_all(tmp_path: Path) -> None:
    before, places = state(), find_places(tmp_path)
    with put_back([linux.BACKGROUND_BYTES], places):
        kernel.write(linux.BACKGROUND_BYTES, str(999 * MB), places)
        (image,) = kernel.capture([linux.BACKGROUND_RATIO], places)
        kernel.write(linux.BACKGROUND_RATIO, "11", places)
        assert kernel.restore(image)
        assert kernel.read_value(linux.BACKGROUND_BYTES, places) == str(999 * MB)
        Path("/proc/sys/vm/dirty_background_ratio").write_text("0\n")  # neither counts: harmless for the background
        (image,) = kernel.capture([linux.BACKGROUND_BYTES], places)
        kernel.write(linux.BACKGROUND_BYTES, str(999 * MB), places)
        assert kernel.restore(image)
        assert [kernel.read_value(n, places) for n in (linux.BACKGROUND_BYTES, linux.BACKGROUND_RATIO)] == ["0", "0"]
    assert state() == before


def test_the_scheduler_of_a_loop_device_comes_back_with_its_tunables(tmp_path: Path) -> None:
    with loop_device(tmp_path / "disk") as device:
        queue = Path("/sys/block") / device / "queue"
        places = KernelPlaces((device,), (device,))
        if not {"none", "mq-deadline"} <= set(read_kernel(places)[linux.SCHEDULER].choices):
            pytest.skip("this kernel has no mq-deadline beside none")
        kernel.write(linux.SCHEDULER, "mq-deadline", places)
        (queue / "iosched" / "fifo_batch").write_text("7\n")
        (queue / "nr_requests").write_text("77\n")
        before = state()
        images = kernel.capture([linux.SCHEDULER, linux.READ_AHEAD], places)
        kernel.write(linux.SCHEDULER, "none", places)
        kernel.write(linux.READ_AHEAD, "4096", places)
        assert not (queue / "iosched" / "fifo_batch").exists()
        assert (queue / "read_ahead_kb").read_text() == "4096\n"
        with pytest.raises(ApplyError, match="cfq"):
            kernel.write(linux.SCHEDULER, "cfq", places)
        assert [kernel.restore(image) for image in images] == [True, True]
        assert state() == before


def test_the_device_of_a_mounted_file_system_is_found(tmp_path: Path) -> None:
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("e2fsprogs is not installed")
    with loop_device(tmp_path / "disk") as device:
        data, log = tmp_path / "data", tmp_path / "log"
        data.mkdir()
        log.mkdir()
        subprocess.run(["mkfs.ext4", "-q", f"/dev/{device}"], check=True)
        subprocess.run(["mount", f"/dev/{device}", str(log)], check=True)
        try:
            (data / "pg_wal").symlink_to(log)
            places = find_places(data)
            assert places.mounted[-1] == device
            assert device in places.disks
        finally:
            subprocess.run(["umount", str(log)], check=True)


def test_a_mapped_device_stands_on_its_disk(tmp_path: Path) -> None:
    if shutil.which("dmsetup") is None or not Path("/dev/mapper/control").exists():
        pytest.skip("this kernel has no device mapper, or dmsetup is not installed")
    with loop_device(tmp_path / "disk") as device:
        table = f"0 {64 * MB // 512} linear /dev/{device} 0"
        subprocess.run(["dmsetup", "create", "pgdyno-test", "--table", table], check=True)
        try:
            mapped = Path("/dev/mapper/pgdyno-test").resolve().name
            assert disks_below(mapped) == [device]
        finally:
            subprocess.run(["dmsetup", "remove", "pgdyno-test"], check=True)


def swap_advice() -> Answer:
    """Return what the advisor says of the swap areas that this machine has now."""
    areas = read_memory(Capture({"proc/swaps": Path("/proc/swaps").read_text()})).swap
    return says("swap-area", with_memory(swap=areas)).answer


def swap_areas() -> list[str]:
    """Return the names of this machine's swap areas: how much of each is used moves by itself."""
    return [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]


@pytest.mark.requirement("R-KRN-20")
@pytest.mark.parametrize("by_hand", [False, True], ids=["restore", "by hand"])
def test_a_swap_file_is_made_and_taken_away(by_hand: bool) -> None:
    folder = Path("/var/tmp/pgdyno swap test")  # with blanks, and not on a tmpfs
    folder.mkdir(exist_ok=True)
    places = KernelPlaces(swap_file=str(folder / "pgdyno.swap"))
    before = swap_areas()
    try:
        with put_back([linux.SWAP_AREA], places) as (image,):
            try:
                kernel.write(linux.SWAP_AREA, str(16 * MB), places)
            except ApplyError as error:
                pytest.skip(f"this machine takes no swap file: {error.detail}")
            assert swap_file.size_bytes(str(folder / "pgdyno.swap")) == 16 * MB
            assert swap_advice() is Answer.OK
            assert kernel.read_value(linux.SWAP_AREA, places) == str(16 * MB)
            assert (folder / "pgdyno.swap").stat().st_mode & 0o777 == 0o600
            kernel.write(linux.SWAP_AREA, str(8 * MB), places)
            assert kernel.read_value(linux.SWAP_AREA, places) == str(8 * MB)
            if by_hand:
                subprocess.run(["sh", "-euc", "\n".join(kernel.undo_commands(image))], check=True)
            else:
                assert kernel.restore(image) is True
            assert kernel.is_in_place(image)
            assert kernel.restore(image) is False
        assert swap_areas() == before
        assert (swap_advice() is Answer.OK) is bool(before)
    finally:
        shutil.rmtree(folder)


def test_a_number_that_the_kernel_refuses_leaves_the_pool_as_it_was(tmp_path: Path) -> None:
    places = find_places(tmp_path)
    if isinstance(kernel.read_value(linux.NR_HUGEPAGES, places), Unknown):
        pytest.skip("no huge pages on this machine")
    before = state()
    with put_back([linux.NR_HUGEPAGES], places), pytest.raises(ApplyError):
        kernel.write(linux.NR_HUGEPAGES, "-1", places)
    assert state() == before
