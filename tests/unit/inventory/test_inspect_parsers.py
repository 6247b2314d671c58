"""The parsers on every kind of text: what cannot be read is unknown, and nothing raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captured import made
from pgdyno.capture.loose import LOOSE_FILES
from pgdyno.capture.texts import Capture
from pgdyno.inventory.channel import chpids_of, read_channel_devices
from pgdyno.inventory.devices import bytes_of, read_devices
from pgdyno.inventory.digest import inventory_hash
from pgdyno.inventory.kernel import parse_sysctls, read_kernel
from pgdyno.inventory.mounts import read_mounts, read_places
from pgdyno.inventory.network import read_network
from pgdyno.inventory.processor import read_processor
from pgdyno.inventory.reading import read_inventory, read_volumes
from pgdyno.inventory.virtualization import read_virtualization
from pgdyno.model.cpus import count_of_cpus
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Purpose

KEYS = sorted(
    {
        *LOOSE_FILES.values(),
        *("commands/places.json", "commands/statvfs.json", "commands/postmaster.json", "proc/postmaster/cgroup"),
        *("proc/postmaster/status", "postgres/server.json", "postgres/databases.json", "postgres/version.json"),
        *("sys/class/block/sda/size", "sys/class/block/dm-0/slaves.list", "sys/class/net/eth0/speed"),
    }
)
FRAGMENTS = st.sampled_from(
    [
        "CPU NODE SOCKET CORE",
        "0 0 0 0",
        "Filename",
        "-",
        ":",
        "=",
        "{",
        "[]",
        '{"report": [1]}',
        "[{}]",
        "null",
        "0:",
        " - ",
        "1 2 3 4 5 6 - ext4 /dev/a",
        "MemTotal: 1 kB",
        "0.0.5100",
        "\n",
        "max",
        "18446744073709551616",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=60), st.lists(FRAGMENTS, max_size=8).map(" ".join), st.lists(FRAGMENTS).map("\n".join)
)


@pytest.mark.requirement("R-INV-19")
@given(st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=12))
def test_no_text_makes_the_reading_fail(texts: dict[str, str]) -> None:
    inventory = read_inventory(Capture(texts))
    assert len(inventory_hash(inventory)) == 12


@given(
    st.dictionaries(st.from_regex(r"[a-z]+(\.[a-z_]+){1,3}", fullmatch=True), st.text("abc0123456789 \t", min_size=1))
)
def test_sysctls_are_read_as_they_are_written(values: dict[str, str]) -> None:
    text = "".join(f"{name} = {value}\n" for name, value in values.items())
    assert parse_sysctls(text) == {name: value.strip() for name, value in values.items()}


def test_sysctl_files_have_comments_slashes_and_dashes() -> None:
    text = "# vm.swappiness = 1\n; other\n-vm.swappiness=10\nnet/ipv4/tcp_rmem = 1 2 3\nbroken\n"
    assert parse_sysctls(text) == {"vm.swappiness": "10", "net.ipv4.tcp_rmem": "1 2 3"}


@given(st.sets(st.integers(0, 300), min_size=1))
def test_lists_of_cpus_are_counted(cpus: set[int]) -> None:
    assert count_of_cpus(",".join(map(str, sorted(cpus)))) == len(cpus)
    assert count_of_cpus(f"0-{max(cpus)}") == max(cpus) + 1


@given(st.integers(0, 1 << 50))
def test_sizes_of_lsblk(size: int) -> None:
    assert bytes_of(size) == size
    assert bytes_of(f"{size}K") == size * 1024
    assert isinstance(bytes_of(None), Unknown)
    assert bytes_of("31.5G") == int(31.5 * 2**30)


@pytest.mark.parametrize(
    ("mask", "listed", "paths"),
    [
        ("80", "00000000 00000000", ("00",)),
        ("f0", "34350c0d 00000000", ("34", "35", "0c", "0d")),
        ("00", "ffffffff ffffffff", ()),
    ],
)
def test_the_mask_says_which_channel_paths_exist(mask: str, listed: str, paths: tuple[str, ...]) -> None:
    assert chpids_of(mask, listed) == paths


@pytest.mark.requirement("R-INV-17")
def test_an_empty_list_of_dasd_is_a_list() -> None:
    heading = "Bus-ID    Status    Name      Device  Type         BlkSz  Size      Blocks\n========\n"
    assert read_channel_devices(made(commands__lsdasd_txt=heading)) != ()  # the key is not that of lsdasd
    assert read_channel_devices(Capture({"commands/lsdasd.txt": heading})) == ()


@pytest.mark.requirement("R-INV-15")
def test_two_virtual_functions_of_one_port_are_told_apart_from_two_adapters() -> None:
    texts = {}
    for name, function, port in (
        ("eth1", "0000:01:00.0", "p0"),
        ("eth2", "0000:01:00.0", "p0"),
        ("eth3", "0000:02:00.0", "p1"),
    ):
        base = f"sys/class/net/{name}"
        texts |= {
            f"{base}/device/physfn.link": f"/sys/devices/pci/{function}\n",
            f"{base}/phys_port_name": f"{port}\n",
            f"{base}/mtu": "9000\n",
            f"{base}/operstate": "up\n",
            f"{base}/speed": "25000\n",
        }
    found = read_network(Capture(texts))
    assert not isinstance(found, Unknown)
    ports = {port.name: (port.physical_function, port.physical_port) for port in found}
    assert ports["eth1"] == ports["eth2"] != ports["eth3"]
    assert all(port.up is True for port in found)


def block(name: str, number: str, *, below: tuple[str, ...] = (), link: str = "", **files: str) -> dict[str, str]:
    base = f"sys/class/block/{name}"
    texts = {
        f"{base}/dev": f"{number}\n",
        f"{base}/slaves.list": "".join(f"{part}\n" for part in below),
        f"{base}.link": f"{link or '/sys/devices/virtual/block/' + name}\n",
        f"{base}/size": "2048\n",
    }
    return texts | {f"{base}/{key.replace('__', '/')}": f"{text}\n" for key, text in files.items()}


@pytest.mark.requirement("R-INV-08", "R-INV-12")
def test_sysfs_gives_the_chain_from_the_mount_to_the_disk() -> None:
    texts = (
        block(
            "nvme0n1",
            "259:0",
            link="/sys/devices/pci/nvme/nvme0/nvme0n1",
            queue__scheduler="[none] mq-deadline",
            queue__read_ahead_kb="128",
            queue__logical_block_size="512",
        )
        | block("nvme0n1p2", "259:2", link="/sys/devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2", partition="2")
        | block("dm-0", "253:0", below=("nvme0n1p2",), dm__uuid="CRYPT-LUKS2-1-luks", dm__name="luks")
        | block("dm-1", "253:1", below=("dm-0",), dm__uuid="LVM-x", dm__name="vg-data")
        | {
            "proc/self/mountinfo": "1 0 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n"
            "2 1 253:1 / /srv/my\\040data rw,noatime - xfs /dev/mapper/vg-data rw,noatime\n",
            "commands/places.json": json.dumps(
                [
                    {
                        "purpose": "data",
                        "path": "/srv/my data/pg",
                        "real": "/srv/my data/pg",
                        "device": "253:1",
                        "block_size": 4096,
                        "size_bytes": 1,
                        "free_bytes": 1,
                    },
                    {"purpose": "wal", "path": "/gone", "error": "/gone: permission denied"},
                ]
            ),
        }
    )
    capture = Capture(texts)
    devices = read_devices(capture)
    assert not isinstance(devices, Unknown)
    assert {name: device.kind for name, device in devices.by_name.items()} == {
        "nvme0n1": "disk",
        "nvme0n1p2": "part",
        "dm-0": "crypt",
        "dm-1": "lvm",
    }
    assert devices.by_name["nvme0n1p2"].scheduler == "none"  # a partition has its disk's queue
    found = read_places(capture, devices)
    assert not isinstance(found, Unknown)
    data, wal = found
    assert (data.purpose, data.mount_point, data.encrypted) == (Purpose.DATA, "/srv/my data", True)
    assert data.stack == ("dm-1", "dm-0", "nvme0n1p2", "nvme0n1")
    assert data.disks == {"nvme0n1"}
    assert wal.stack == Unknown("/gone: permission denied")
    mounts = read_mounts(capture)
    assert not isinstance(mounts, Unknown)
    assert [(mount.point, mount.block_size) for mount in mounts][1] == ("/srv/my data", 4096)


def test_a_file_system_on_no_block_device_says_so() -> None:
    capture = Capture(
        {
            "proc/self/mountinfo": "1 0 0:5 / / rw - overlay overlay rw\n",
            "commands/lsblk.json": '{"blockdevices": []}',
            "commands/places.json": '[{"purpose": "data", "path": "/data", "device": "0:5"}]',
        }
    )
    found = read_places(capture, read_devices(capture))
    assert not isinstance(found, Unknown)
    assert isinstance(found[0].stack, Unknown)
    assert "overlay" in found[0].stack.reason


def test_devices_that_lie_below_each_other_in_a_circle_end() -> None:
    devices = read_devices(Capture(block("dm-0", "1:0", below=("dm-1",)) | block("dm-1", "1:1", below=("dm-0",))))
    assert not isinstance(devices, Unknown)
    assert devices.stack("dm-0") == ("dm-0", "dm-1")


def test_lvm_that_is_not_installed_has_no_volumes_and_one_that_fails_is_unknown() -> None:
    assert read_volumes(Capture({}, {"commands/lvs.json": "lvs is not installed"})) == ()
    assert isinstance(read_volumes(Capture({}, {"commands/lvs.json": "lvs failed with exit status 5"})), Unknown)


@pytest.mark.requirement("R-INV-03")
def test_threads_that_are_off_do_not_count_as_on() -> None:
    table = "CPU NODE SOCKET CORE ONLINE\n" + "".join(
        f"{cpu} 0 0 {cpu // 8 if cpu % 8 < 4 else '-'} {'yes' if cpu % 8 < 4 else 'no'}\n" for cpu in range(16)
    )
    info = "Core 0: " + " ".join(f"{cpu}{'*' if cpu < 4 else ''}" for cpu in range(8)) + "\n"
    part = read_processor(Capture({"commands/lscpu_extended.txt": table, "commands/ppc64_cpu_info.txt": info}))
    assert (part.cpus, part.cpus_configured, part.cores, part.threads_per_core, part.max_threads) == (8, 16, 2, 4, 8)


def test_sysfs_stands_in_for_lscpu_where_core_numbers_begin_anew() -> None:
    texts = {}
    for cpu in range(8):
        base = f"sys/devices/system/cpu/cpu{cpu}"
        texts |= {
            f"{base}/topology/core_id": f"{cpu % 2}\n",
            f"{base}/topology/physical_package_id": f"{cpu // 4}\n",
            f"{base}/cache/index3/shared_cpu_list": f"{cpu // 4 * 4}-{cpu // 4 * 4 + 3}\n",
        }
    part = read_processor(Capture(texts))
    assert (part.cpus, part.cores, part.threads_per_core, part.sockets, part.scattered) == (8, 4, 2, 2, True)
    assert part.last_level_caches == 2


@pytest.mark.requirement("R-SCH-08")
@pytest.mark.parametrize(
    ("release", "reason", "words"),
    [
        ("6.18.1", "/sys/kernel/debug/sched/migration_cost_ns: operation not permitted (EPERM)", "EPERM"),
        ("5.14.0", "debugfs is not mounted at /sys/kernel/debug", "debugfs"),
        ("4.18.0", "", "kernel.sched_migration_cost_ns"),
    ],
)
def test_why_there_is_no_migration_cost(release: str, reason: str, words: str) -> None:
    texts = {"commands/uname.txt": f"Linux h {release} #1 x86_64\n", "commands/sysctl.txt": "vm.swappiness = 60\n"}
    kernel = read_kernel(Capture(texts, {"sys/kernel/debug/sched/migration_cost_ns": reason}))
    assert isinstance(kernel.migration_cost_ns, Unknown)
    assert words in kernel.migration_cost_ns.reason
    assert isinstance(kernel.migration_interface, Unknown)


@pytest.mark.requirement("R-INV-05")
@pytest.mark.parametrize(
    ("lscpu", "layer"),
    [
        ("Hypervisor vendor: VMware", "VMware"),
        ("Hypervisor vendor: Microsoft", "Hyper-V"),
        ("Hypervisor vendor: Xen", "Xen"),
        ("Hypervisor vendor: pHyp", "PowerVM"),
    ],
)
def test_hypervisors_by_their_vendor(lscpu: str, layer: str) -> None:
    assert read_virtualization(Capture({"commands/lscpu.txt": f"{lscpu}\n"})).layer == layer


@pytest.mark.requirement("R-KRN-22")
@pytest.mark.parametrize(
    ("kind", "file", "text", "kills"),
    [
        ("cgroup2 cgroup2 rw", "memory.events", "low 0\nhigh 0\nmax 9\noom 5\noom_kill 4\noom_group_kill 1\n", 4),
        ("cgroup cgroup rw,memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2),
        ("cgroup cgroup rw,memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", None),
        ("cgroup2 cgroup2 rw", "memory.events", "oom_kill 4", None),
    ],
)
def test_kills_are_counted_in_the_servers_own_group(kind: str, file: str, text: str, kills: int | None) -> None:
    name = "0::/pg.service" if kind.startswith("cgroup2") else "4:memory:/pg.service"
    texts = {
        "proc/postmaster/cgroup": f"{name}\n",
        "proc/self/mountinfo": f"30 24 0:26 / /sys/fs/cgroup rw - {kind}\n",
        f"sys/fs/cgroup/pg.service/{file}": text,
    }
    found = read_inventory(Capture(texts))
    counted = found.host.memory.group_oom_kills
    assert (None if isinstance(counted, Unknown) else counted) == kills
    other = read_inventory(Capture(texts | {f"sys/fs/cgroup/pg.service/{file}": "oom_kill 77\n"}))
    assert inventory_hash(other) == inventory_hash(found)


@pytest.mark.requirement("R-KRN-24", "R-PG-18")
def test_what_is_left_below_the_tightest_limit() -> None:
    group = "sys/fs/cgroup/pod/pg"
    texts = {
        "proc/postmaster/cgroup": "0::/pod/pg\n",
        "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        f"{group}/memory.max": f"{14 << 30}\n",
        f"{group}/memory.current": f"{12 << 30}\n",
        f"{group}/memory.stat": f"anon 5\ninactive_file {3 << 30}\nactive_file {1 << 30}\nslab 7\n",
        "sys/fs/cgroup/pod/memory.max": "max\n",
    }

    def left(**changed: str) -> object:
        found = read_inventory(Capture(texts | {f"sys/fs/cgroup/{name}": text for name, text in changed.items()}))
        return found.host.memory.group_available_bytes

    assert left() == 6 << 30
    assert left(**{"pod/memory.max": f"{8 << 30}\n", "pod/memory.current": f"{8 << 30}\n",
                   "pod/memory.stat": "inactive_file 0\nactive_file 4096\n"}) == 4096  # fmt: skip
    assert isinstance(left(**{"pod/pg/memory.stat": "inactive_file 12"}), Unknown)
    assert isinstance(left(**{"pod/pg/memory.max": "max\n"}), Unknown)


@pytest.mark.requirement("R-KRN-24")
def test_limits_of_cgroup_v1_are_found_above_the_server() -> None:
    capture = Capture(
        {
            "proc/meminfo": "MemTotal: 67108864 kB\n",
            "proc/postmaster/cgroup": "4:memory:/docker/a/b\n3:cpu,cpuacct:/docker/a\n",
            "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
            "sys/fs/cgroup/memory/docker/a/b/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes": f"{7 << 30}\n",
            "sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us": "100000\n",
            "sys/devices/system/cpu/online": "0-15\n",
        }
    )
    host = read_inventory(capture).host
    assert (host.memory.limit_bytes, host.memory.limited_by) == (7 << 30, "cgroup v1")
    assert (host.processor.cpus, host.processor.usable) == (16, 3)
