"""Images of Linux knobs: whatever is written, in whatever order, the image brings back exactly what was."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.kernel import kernel
from pgdyno.kernel.kernel import KernelImage
from pgdyno.linux.block_devices import KernelPlaces
from pgdyno.model import linux
from pgdyno.model.shapes import plain, shaped
from simulated_kernel import SimulatedKernel

PLACES = KernelPlaces(("vda",), ("vda",), swap_file="/nowhere/pgdyno.swap")
RATIOS = st.integers(1, 100).map(str)
SIZES = st.integers(8192, 1 << 40).map(str)
DIRTY = {linux.DIRTY_BYTES: SIZES, linux.DIRTY_RATIO: RATIOS,
         linux.BACKGROUND_BYTES: SIZES, linux.BACKGROUND_RATIO: RATIOS}  # fmt: skip
WRITES = st.lists(
    st.sampled_from(sorted(DIRTY)).flatmap(lambda name: st.tuples(st.just(name), DIRTY[name])), max_size=6
)


def run_by_hand(tree: SimulatedKernel, commands: list[str]) -> None:
    for command in commands:
        match = re.fullmatch(r"echo (\S+) > (\S+)", command)
        assert match, command
        tree.write(match[2], match[1])


@given(first=WRITES, then=WRITES, captured=st.sampled_from(sorted(DIRTY)), by_hand=st.booleans())
def test_the_counterpart_that_counted_comes_back(
    first: list[tuple[str, str]], then: list[tuple[str, str]], captured: str, by_hand: bool
) -> None:
    with TemporaryDirectory() as folder:
        tree = SimulatedKernel(Path(folder))
        for name, value in first:
            kernel.write(name, value, PLACES, tree=tree)

        def pair() -> list[str]:
            return [tree.read(linux.LINUX[name].path) for name in (captured, linux.COUNTERPARTS[captured])]

        before = pair()
        (image,) = kernel.capture((captured,), PLACES, tree=tree)
        for name, value in then:
            kernel.write(name, value, PLACES, tree=tree)
            assert kernel.read_value(name, PLACES, tree=tree) == value
            assert kernel.read_value(linux.COUNTERPARTS[name], PLACES, tree=tree) == "0"
        differed = pair() != before
        if by_hand:
            run_by_hand(tree, kernel.undo_commands(image))
        else:
            assert kernel.restore(image, tree=tree) is differed
        assert pair() == before
        assert kernel.is_in_place(image, tree=tree)
        assert kernel.restore(image, tree=tree) is False


@pytest.mark.parametrize("name", [linux.DIRTY_BYTES, linux.BACKGROUND_RATIO])
def test_both_counterparts_at_zero_come_back(tmp_path: Path, name: str) -> None:
    tree = SimulatedKernel(tmp_path)
    for spelling in (name, linux.COUNTERPARTS[name]):
        tree.place(linux.LINUX[spelling].path, "0\n")
    (image,) = kernel.capture((name,), PLACES, tree=tree)
    before = tree.state()
    kernel.write(linux.DIRTY_BYTES if "background" not in name else linux.BACKGROUND_BYTES, "65536", PLACES, tree=tree)
    assert kernel.restore(image, tree=tree) is True
    assert tree.state() == before


@given(
    st.builds(
        KernelImage,
        st.sampled_from(linux.LINUX_KNOBS),
        st.lists(st.tuples(st.text(min_size=1), st.none() | st.text()), max_size=4).map(tuple),
    )
)
def test_an_image_survives_json(image: KernelImage) -> None:
    assert shaped(KernelImage, json.loads(json.dumps(plain(image)))) == image


@pytest.mark.parametrize("damage", [{"knob": "x"}, {"knob": "x", "files": 7}, {"knob": "x", "files": [["one"]]}])
def test_a_damaged_image_is_refused(damage: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="the answer"):
        shaped(KernelImage, damage)


def test_a_scheduler_comes_back_with_its_tunables(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    tree.place("/sys/block/vda/queue/nr_requests", "1000\n")
    tree.place("/sys/block/vda/queue/iosched/fifo_batch", "7\n")
    before = {path: text.strip() for path, text in tree.state().items()}
    (image,) = kernel.capture((linux.SCHEDULER,), PLACES, tree=tree)
    kernel.write(linux.SCHEDULER, "none", PLACES, tree=tree)
    assert tree.read("/sys/block/vda/queue/scheduler") == "[none] mq-deadline kyber bfq\n"
    assert not tree.exists("/sys/block/vda/queue/iosched/fifo_batch")
    assert not kernel.is_in_place(image, tree=tree)
    assert kernel.restore(image, tree=tree)
    assert {path: text.strip() for path, text in tree.state().items()} == before


def test_fewer_huge_pages_than_asked_are_an_error_and_the_pool_is_as_before(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    tree.free_huge_pages = 100
    with pytest.raises(ApplyError, match=r"vm\.nr_hugepages = 128 did not come into force") as caught:
        kernel.write(linux.NR_HUGEPAGES, "128", PLACES, tree=tree)
    assert "found room for 100 pages only" in str(caught.value.detail)
    assert "fragmented" in str(caught.value.hint)
    assert kernel.read_value(linux.NR_HUGEPAGES, PLACES, tree=tree) == "0"
    kernel.write(linux.NR_HUGEPAGES, "100", PLACES, tree=tree)
    assert kernel.read_value(linux.NR_HUGEPAGES, PLACES, tree=tree) == "100"


def test_the_share_of_each_numa_node_is_kept(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    shares = [f"/sys/devices/system/node/node{n}/hugepages/hugepages-2048kB/nr_hugepages" for n in (0, 1)]
    tree.place(shares[0], "0\n")
    (image,) = kernel.capture((linux.NR_HUGEPAGES,), PLACES, tree=tree)
    assert len(image.files) == 1, "one node has nothing to share out"
    tree.place(shares[1], "0\n")
    (image,) = kernel.capture((linux.NR_HUGEPAGES,), PLACES, tree=tree)
    for share in shares:
        tree.place(share, "64\n")
    assert kernel.restore(image, tree=tree)
    assert [tree.read(share) for share in shares] == ["0\n", "0\n"]


def test_a_value_that_the_kernel_refuses_leaves_the_one_before(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    before = tree.state()
    for name, value in ((linux.THP_ENABLED, "sometimes"), (linux.DIRTY_BYTES, "1"), (linux.SCHEDULER, "cfq")):
        with pytest.raises(ApplyError, match=f"{name} = {value} did not come into force"):
            kernel.write(name, value, PLACES, tree=tree)
    assert tree.state() == before


def test_a_write_to_the_second_disk_that_fails_takes_the_first_one_back(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    tree.place("/sys/block/vdb/queue/read_ahead_kb", "8192\n")
    tree.locked["/sys/block/vdb/queue/read_ahead_kb"] = errno.EACCES
    both = KernelPlaces(("vda", "vdb"), ("vda", "vdb"))
    with pytest.raises(ApplyError, match="read_ahead_kb = 128 did not come into force"):
        kernel.write(linux.READ_AHEAD, "128", both, tree=tree)
    assert kernel.read_value(linux.READ_AHEAD, both, tree=tree) == "8192"


def test_disks_that_differ_are_unknown_as_one_and_come_back_as_two(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    tree.place("/sys/block/vdb/queue/read_ahead_kb", "128\n")
    both = KernelPlaces(("vda", "vdb"), ("vda", "vdb"))
    assert "it differs" in str(kernel.read_value(linux.READ_AHEAD, both, tree=tree))
    (image,) = kernel.capture((linux.READ_AHEAD,), both, tree=tree)
    kernel.write(linux.READ_AHEAD, "256", both, tree=tree)
    assert kernel.restore(image, tree=tree)
    assert [tree.read(f"/sys/block/{disk}/queue/read_ahead_kb") for disk in ("vda", "vdb")] == ["8192\n", "128\n"]


def test_a_restore_goes_on_after_a_file_that_refuses_and_then_says_so(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    tree.place("/sys/block/vdb/queue/read_ahead_kb", "128\n")
    both = KernelPlaces(("vda", "vdb"), ())
    (image,) = kernel.capture((linux.READ_AHEAD,), both, tree=tree)
    kernel.write(linux.READ_AHEAD, "256", both, tree=tree)
    tree.locked["/sys/block/vda/queue/read_ahead_kb"] = errno.EPERM
    with pytest.raises(OSError, match="vda"):
        kernel.restore(image, tree=tree)
    assert tree.read("/sys/block/vdb/queue/read_ahead_kb") == "128\n"
    tree.locked.clear()
    assert kernel.restore(image, tree=tree)


def test_nothing_is_captured_that_is_not_there(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    with pytest.raises(EnvironmentUnsuitable, match=r"cpu\.governor") as caught:
        kernel.capture((linux.SWAPPINESS, linux.GOVERNOR), PLACES, tree=tree)
    assert "no cpufreq" in str(caught.value.detail)


def test_read_ahead_is_kept_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda _name: 65536)  # Power

    class Pages(SimulatedKernel):
        def write(self, path: str, text: str) -> None:
            super().write(path, str(int(text) // 64 * 64))

    tree = Pages(tmp_path)
    kernel.write(linux.READ_AHEAD, "100", PLACES, tree=tree)
    assert kernel.read_value(linux.READ_AHEAD, PLACES, tree=tree) == "64"


def test_strict_overcommit_is_refused_where_the_host_has_promised_more(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    tree.place("/proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 0 kB\nCommitted_AS: 480 kB\n")
    with pytest.raises(ApplyError) as caught:
        kernel.write(linux.OVERCOMMIT_MEMORY, "2", PLACES, tree=tree)
    assert "promised 480 kB" in str(caught.value.detail)
    assert tree.written == []
    kernel.write(linux.OVERCOMMIT_RATIO, "90", PLACES, tree=tree)
    kernel.write(linux.OVERCOMMIT_MEMORY, "2", PLACES, tree=tree)
    with pytest.raises(ApplyError):
        kernel.write(linux.OVERCOMMIT_RATIO, "50", PLACES, tree=tree)
    assert kernel.read_value(linux.OVERCOMMIT_RATIO, PLACES, tree=tree) == "90"
