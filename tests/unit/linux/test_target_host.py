"""Facts of the host from text: memory limits of cgroups, processors of four architectures, file systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.linux import host
from pgdyno.linux.cgroups import memory_limits
from pgdyno.linux.meminfo import parse_meminfo, sizes_of
from pgdyno.linux.mountinfo import filesystem_of
from pgdyno.model.facts import Unknown

V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "33 32 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
CONTAINER_V1 = "33 32 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"


def test_some_sizes_are_those_of_all_of_them() -> None:
    text = "MemTotal:        1012300 kB\nMemAvailable:     964972 kB\nHugePages_Total:       3\nSwapTotal:       0 kB\n"
    every = parse_meminfo(text)
    assert sizes_of(("MemTotal", "MemAvailable", "SwapTotal", "Cached"), text) == {
        name: every[name] for name in ("MemTotal", "MemAvailable", "SwapTotal")
    }


def test_v2_takes_the_limits_of_all_ancestors() -> None:
    files = {
        Path("/sys/fs/cgroup/system.slice/pg.service/memory.max"): "max\n",
        Path("/sys/fs/cgroup/system.slice/memory.max"): "4294967296\n",
    }
    assert memory_limits("0::/system.slice/pg.service\n", V2, files) == [4 << 30]


def test_v1_no_limit_is_a_huge_number() -> None:
    files = {
        Path("/sys/fs/cgroup/memory/a/memory.limit_in_bytes"): "1073741824\n",
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"): "9223372036854771712\n",
    }
    limits = memory_limits("4:memory:/a\n0::/\n", V1, files)
    assert limits == [1 << 30, 9223372036854771712]
    assert host.smallest(8 << 30, limits) == 1 << 30
    assert host.smallest(8 << 30, limits[1:]) == 8 << 30
    assert host.smallest(Unknown("hidden"), limits[1:]) == Unknown("hidden")


def test_a_container_sees_its_own_group_as_the_root() -> None:
    files = {Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"): "2147483648\n"}
    assert memory_limits("4:memory:/docker/abc\n", CONTAINER_V1, files) == [2 << 30]


def test_a_group_outside_of_the_mount_falls_back_to_the_mounts_root() -> None:
    files = {Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"): "2147483648\n"}
    assert memory_limits("4:memory:/elsewhere\n", CONTAINER_V1, files) == [2 << 30]


def test_no_cgroup_leaves_ram_and_no_ram_leaves_its_reason() -> None:
    assert host.smallest(8 << 30, []) == 8 << 30
    assert host.smallest(Unknown("hidden"), []) == Unknown("hidden")
    assert host.smallest(Unknown("hidden"), [1 << 30]) == 1 << 30


def test_meminfo_is_bytes_but_for_counts() -> None:
    text = "MemTotal:       24684084 kB\nSwapTotal:  0 kB\nHugePages_Total:     512\nHugepagesize: 2048 kB\n"
    assert parse_meminfo(text) == {
        "MemTotal": 24684084 * 1024,
        "SwapTotal": 0,
        "HugePages_Total": 512,
        "Hugepagesize": 2 << 20,
    }


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 7763\n", "AMD EPYC 7763"),
        (
            "processor\t: 0\ncpu\t\t: POWER10 (architected), altivec supported\n",
            "POWER10 (architected), altivec supported",
        ),
        (
            "vendor_id       : IBM/S390\nprocessor 0: version = FF,  identification = 0133E8,  machine = 3931\n",
            "IBM/S390 machine 3931",
        ),
        ("processor\t: 0\nCPU part\t: 0xd0c\n", "0xd0c"),
    ],
)
def test_processors(text: str, model: str) -> None:
    assert host.cpu_model(text) == model


def test_a_processor_without_a_name_is_unknown() -> None:
    assert isinstance(host.cpu_model(""), Unknown)


def test_the_choice_in_brackets() -> None:
    assert host.chosen("always [madvise] never\n") == "madvise"
    assert isinstance(host.chosen(None), Unknown)


def test_the_nearest_mount_names_the_file_system() -> None:
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 8:2 / /var/lib/postgresql rw - xfs /dev/sdb rw\n"
        "3 1 8:3 / /var/lib/my\\040disk rw - btrfs /dev/sdc rw\n"
        "4 1 8:4 / /var/lib/postgresql rw - zfs tank rw\n"
    )
    assert filesystem_of(Path("/var/lib/postgresql/18/main"), mounts) == "zfs"
    assert filesystem_of(Path("/var/lib/postgresql2"), mounts) == "ext4"
    assert filesystem_of(Path("/var/lib/my disk/data"), mounts) == "btrfs"
    assert isinstance(filesystem_of(Path("/x"), ""), Unknown)


def test_an_unseen_host_has_no_numbers() -> None:
    unseen = host.unknown_host("far away")
    assert unseen.ram_bytes == Unknown("far away")
    assert unseen.cores == Unknown("far away")
