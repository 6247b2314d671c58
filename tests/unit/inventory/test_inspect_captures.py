"""What each captured machine is found to be; nothing of the machine that reads it may get in."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from captured import CAPTURES, captured, server_of
from pgdyno.capture.texts import Capture
from pgdyno.inventory.digest import inventory_hash
from pgdyno.inventory.inspection import inspect_capture
from pgdyno.inventory.reading import read_inventory
from pgdyno.model.classes import SizeClass
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Purpose, SchedulerGeneration

FOLDERS = sorted(path.name for path in CAPTURES.iterdir() if path.is_dir() and path.name != "loose")
SECTIONS = ("processor", "memory", "kernel", "virtualization", "devices", "places", "mounts", "server")
GB = 1 << 30
MB = 1 << 20


@pytest.mark.requirement("R-INV-01", "R-ARC-01", "R-ARC-02", "R-ARC-03")
@pytest.mark.parametrize(
    ("name", "architecture", "machine", "release"),
    [
        ("s390x-lpar-128g", "s390x", "3931", "4.18.0-372.9.1.el8.s390x"),
        ("ppc64le-64k", "ppc64le", "9105-22A", "5.14.0-70.13.1.el9_0.ppc64le"),
        ("x86_64-128g", "x86_64", "Intel M50CYP", "5.15.0-105-generic"),
        ("loose/s390x-qemu-6.1", "s390x", "8561", "6.1.0-50-s390x"),
    ],
)
def test_the_machine_is_the_captured_one(name: str, architecture: str, machine: str, release: str) -> None:
    host = captured(name).host
    assert (host.processor.architecture, host.processor.machine) == (architecture, machine)
    assert host.kernel.release == release
    assert isinstance(host.kernel.distribution, str)


@pytest.mark.requirement("R-INV-01")
def test_the_host_that_reads_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> object:
        raise AssertionError("the machine that parses was asked")

    for name in ("os.sysconf", "os.uname", "platform.machine", "platform.release", "os.statvfs"):
        monkeypatch.setattr(name, forbidden)
    assert inspect_capture(CAPTURES / "ppc64le-64k").host.memory.page_size == 65536


@pytest.mark.requirement("R-INV-02", "R-ARC-01")
def test_every_level_of_the_topology_is_read() -> None:
    part = captured("loose/s390x-qemu-6.1").host.processor
    assert (part.cpus, part.sockets, part.books, part.drawers) == (4, 4, 4, 4)
    lpar = captured("s390x-lpar-128g").host.processor
    assert (lpar.sockets, lpar.books, lpar.drawers, lpar.numa_nodes) == (3, 2, 1, 1)


@pytest.mark.requirement("R-INV-02")
def test_every_column_of_every_cpu_is_kept() -> None:
    guest = captured("loose/s390x-qemu-6.1").host.processor.layout
    assert not isinstance(guest, Unknown)
    assert Counter(cpu.drawer for cpu in guest) == {"0": 1, "1": 1, "2": 1, "3": 1}
    lpar = captured("s390x-drawer").host.processor.layout
    assert not isinstance(lpar, Unknown)
    assert asdict(lpar[1]) == {
        "number": 1,
        "node": "0",
        "drawer": "0",
        "book": "0",
        "socket": "0",
        "core": "1",
        "last_cache": None,
        "online": True,
        "configured": True,
        "polarization": "vert-medium",
        "caches": "L1d:L1i:L2 1:1:1",
        "address": "1",
    }
    assert isinstance(captured("pg95").host.processor.layout, Unknown)
    assert "cut" in str(read_inventory(Capture({"commands/lscpu_extended.txt": "CPU NODE\n0\n"})).host.processor.layout)


@pytest.mark.requirement("R-INV-03", "R-ARC-02", "R-ARC-03")
@pytest.mark.parametrize(
    ("name", "cores", "threads", "cpus"),
    [
        ("s390x-lpar-128g", 24, 2, 48),
        ("ppc64le-64k", 8, 8, 64),
        ("x86_64-128g", 16, 2, 32),
        ("s390x-lpar-4ifl", 4, 1, 4),
    ],
)
def test_cores_times_threads_are_the_cpus(name: str, cores: int, threads: int, cpus: int) -> None:
    part = captured(name).host.processor
    assert (part.cores, part.threads_per_core, part.cpus) == (cores, threads, cpus)
    assert part.max_threads == threads


@pytest.mark.requirement("R-INV-04", "R-ARC-05")
@pytest.mark.parametrize(
    ("name", "scattered"),
    [
        ("s390x-lpar-4ifl", False),
        ("s390x-drawer", True),
        ("s390x-lpar-128g", True),
        ("loose/s390x-qemu-6.1", True),
        ("x86_64-128g", False),
        ("ppc64le-64k", False),
        ("container-14g", True),
    ],
)
def test_scattered_cpus_are_told_from_those_of_one_chip(name: str, scattered: bool) -> None:
    assert captured(name).host.processor.scattered is scattered


@pytest.mark.requirement("R-INV-05", "R-ARC-01")
@pytest.mark.parametrize(
    ("name", "layer", "container"),
    [
        ("s390x-lpar-128g", "LPAR", None),
        ("pg95", "z/VM", Unknown),
        ("loose/s390x-qemu-6.1", "KVM", Unknown),
        ("loose/x86_64-vm-6.18", "KVM", Unknown),
        ("ppc64le-64k", "PowerVM", None),
        ("x86_64-128g", "none", None),
        ("container-14g", "none", "Kubernetes"),
    ],
)
def test_the_layer_below_is_found(name: str, layer: str, container: object) -> None:
    part = captured(name).host.virtualization
    assert part.layer == layer
    assert isinstance(part.container, Unknown) if container is Unknown else part.container == container


@pytest.mark.requirement("R-INV-06", "R-ARC-01", "R-ARC-02", "R-ARC-03")
@pytest.mark.parametrize(
    ("name", "page", "huge", "thp"),
    [
        ("s390x-lpar-128g", 4096, MB, "always"),
        ("ppc64le-64k", 65536, 2 * MB, "always"),
        ("x86_64-128g", 4096, 2 * MB, "madvise"),
        ("loose/ppc64le-qemu-6.1", 65536, 2 * MB, "always"),
    ],
)
def test_pages_are_those_of_the_captured_machine(name: str, page: int, huge: int, thp: str) -> None:
    memory = captured(name).host.memory
    assert (memory.page_size, memory.huge_page_bytes, memory.thp_enabled) == (page, huge, thp)
    assert memory.huge_pages_supported is True
    assert isinstance(memory.huge_page_sizes, tuple)
    assert memory.huge_page_sizes[0] == huge


@pytest.mark.requirement("R-KRN-19")
def test_without_edat_there_are_no_huge_pages() -> None:
    memory = captured("loose/s390x-qemu-6.1").host.memory
    assert memory.huge_pages_supported is False
    assert memory.huge_page_sizes == ()
    assert isinstance(memory.huge_page_bytes, Unknown)
    assert captured("s390x-lpar-128g").host.memory.huge_pages_supported is True


@pytest.mark.requirement("R-INV-07")
def test_no_swap_is_told_from_unknown_swap() -> None:
    assert captured("s390x-lpar-4ifl").host.memory.swap == ()
    areas = captured("s390x-lpar-128g").host.memory.swap
    assert not isinstance(areas, Unknown)
    assert [(area.name, area.bytes) for area in areas] == [("/dev/dasdb1", 2097148 * 1024)]
    assert isinstance(captured("loose/x86_64-vm-6.18").host.memory.swap, Unknown)


@pytest.mark.requirement("R-INV-08", "R-INV-12")
def test_the_stack_goes_from_the_encrypted_volume_down_to_the_paths() -> None:
    host = captured("s390x-lpar-128g").host
    data, wal = host.place(Purpose.DATA), host.place(Purpose.WAL)
    assert data is not None
    assert wal is not None
    assert isinstance(data.stack, tuple)
    assert data.stack[:3] == ("dm-6", "dm-4", "dm-0")
    assert data.encrypted is True
    assert wal.encrypted is False
    assert (data.mount_point, wal.mount_point) == ("/edb_data", "/edb_logs")
    assert data.disks == {f"sd{letter}" for letter in "abcdefgh"}
    assert isinstance(wal.disks, frozenset)
    assert isinstance(data.disks, frozenset)
    assert wal.disks <= data.disks  # as the layout check has to see
    device = host.device("/dev/mapper/edb_data_enc")
    assert device is not None
    assert (device.name, device.kind) == ("dm-6", "crypt")


@pytest.mark.requirement("R-INV-08", "R-INV-11")
def test_sector_sizes_are_bytes() -> None:
    disk = captured("loose/x86_64-vm-6.18").host.device("vda")
    assert disk is not None
    assert (disk.logical_sector, disk.physical_sector, disk.read_ahead_kb) == (512, 4096, 8192)
    assert (disk.scheduler, disk.storage, disk.rotational) == ("mq-deadline", "virtio", True)
    lvm = captured("loose/s390x-qemu-6.1-lvm").host.device("vdb")
    assert lvm is not None
    assert (lvm.logical_sector, lvm.schedulers) == (512, ("mq-deadline", "kyber", "bfq", "none"))


@pytest.mark.requirement("R-INV-09")
def test_logical_volumes_with_their_stripes_and_segments() -> None:
    volumes = captured("loose/s390x-qemu-6.1-lvm").host.volumes
    assert not isinstance(volumes, Unknown)
    data, logs = volumes
    assert (data.path, data.stripes, data.stripe_bytes) == ("/dev/edbvg/edb_data", 4, 65536)
    assert (data.read_ahead, data.effective_read_ahead_kb) == ("auto", 512)
    assert data.devices == ("/dev/vda", "/dev/vdb", "/dev/vdc", "/dev/vdd")
    assert (logs.stripes, logs.devices) == (1, ("/dev/vda", "/dev/vdb"))
    assert (len(data.segments), logs.segments) == (1, (("/dev/vda",), ("/dev/vdb",)))


@pytest.mark.requirement("R-INV-10", "CON-32")
def test_the_block_size_is_that_of_the_mount() -> None:
    host = captured("ppc64le-64k").host
    mount = host.mount("/var/lib/pgsql")
    assert mount is not None
    assert mount.block_size == 4096  # a device node would have shown 65536, the page size
    assert host.memory.page_size == 65536


@pytest.mark.requirement("R-INV-15", "R-INV-16")
def test_network_and_disk_adapters() -> None:
    host = captured("s390x-lpar-128g").host
    assert not isinstance(host.network, Unknown)
    assert [(port.name, port.driver, port.speed_mbit, port.mtu) for port in host.network] == [
        ("enc1000", "qeth (OSD_10GIG)", 10000, 8992)
    ]
    assert not isinstance(host.adapters, Unknown)
    assert len(host.adapters) == 2


@pytest.mark.requirement("R-INV-17", "R-ARC-01")
def test_channel_devices() -> None:
    found = captured("loose/s390x-qemu-6.1-lvm").host.channel_devices
    assert not isinstance(found, Unknown)
    assert [device.bus_id for device in found][1:] == [f"0.0.510{n}" for n in range(4)]
    dasd = captured("s390x-lpar-128g").host.channel_devices
    assert not isinstance(dasd, Unknown)
    disk = next(device for device in dasd if device.device == "dasda")
    assert (disk.kind, disk.block_size, disk.size_bytes) == ("ECKD DASD", 4096, 42259 * MB)
    assert disk.chpids == ("34", "35", "0c", "0d")
    assert captured("x86_64-128g").host.channel_devices == ()


@pytest.mark.requirement("R-ARC-06", "R-ARC-07")
def test_entitlement_and_shared_processors() -> None:
    drawer, lpar = captured("s390x-drawer").host.processor, captured("s390x-lpar-128g").host.processor
    assert (drawer.polarization, drawer.entitlement, drawer.shared) == (
        "vertical",
        {"high": 8, "low": 8, "medium": 8},
        True,
    )
    assert (lpar.entitlement, lpar.shared) == ({"high": 48}, False)
    assert captured("s390x-lpar-4ifl").host.processor.polarization == "horizontal"
    assert captured("pg95").host.processor.shared is True
    assert captured("ppc64le-64k").host.processor.shared is False


@pytest.mark.requirement("R-SCH-08", "R-INV-19")
@pytest.mark.parametrize(
    ("name", "cost", "interface"),
    [
        ("s390x-lpar-128g", 500000, "/proc/sys/kernel/sched_migration_cost_ns"),
        ("s390x-drawer", 5000000, "/sys/kernel/debug/sched/migration_cost_ns"),
        ("loose/s390x-qemu-6.1", 500000, "/sys/kernel/debug/sched/migration_cost_ns"),
        ("ppc64le-64k", Unknown, Unknown),
    ],
)
def test_the_migration_cost_is_read_where_this_kernel_has_it(name: str, cost: object, interface: object) -> None:
    kernel = captured(name).host.kernel
    if cost is Unknown:
        assert isinstance(kernel.migration_cost_ns, Unknown)
        assert "only root may" in kernel.migration_cost_ns.reason
        assert isinstance(kernel.migration_interface, Unknown)
    else:
        assert (kernel.migration_cost_ns, kernel.migration_interface) == (cost, interface)


def test_the_scheduler_by_kernel() -> None:
    assert captured("loose/x86_64-vm-6.18").host.kernel.scheduler is SchedulerGeneration.EEVDF
    assert captured("loose/ppc64le-qemu-6.1").host.kernel.scheduler is SchedulerGeneration.CFS


@pytest.mark.requirement("R-KRN-24")
def test_the_limit_of_the_container_counts() -> None:
    host = captured("container-14g").host
    assert (host.memory.limit_bytes, host.memory.limited_by) == (14 * GB, "cgroup v2")
    assert host.memory.ram_bytes == 263929856 * 1024
    assert host.processor.usable == 8


@pytest.mark.requirement("R-VER-12", "R-INV-13")
def test_epas_is_postgresql_of_its_major_with_settings_of_its_own() -> None:
    server = server_of(captured("s390x-lpar-128g"))
    assert (server.flavour, server.major, server.version) == ("EPAS", 14, "14.4")
    assert server.settings["edb_dynatune_profile"].setting == "oltp"
    assert server.settings["shared_buffers"].setting == "16384"
    assert server.settings["max_connections"].boot_val == "100"


@pytest.mark.requirement("R-KRN-15")
def test_the_peak_of_the_postmaster_has_its_path() -> None:
    server = server_of(captured("s390x-lpar-128g"))
    assert (server.peak_memory_bytes, server.peak_memory_file) == (357456 * 1024, "/proc/4711/status")


def test_a_9_5_configuration_is_read_without_defaults_of_its_own() -> None:
    server = server_of(captured("pg95"))
    assert (server.major, server.version_num) == (9, 90507)
    assert server.settings["checkpoint_segments"].setting == "64"
    assert server.settings["wal_keep_segments"].setting == "32"
    assert (server.settings["shared_buffers"].setting, server.settings["shared_buffers"].unit) == ("2097152", "8kB")
    assert "wal_buffers" not in server.settings
    assert server.settings["primary_conninfo"].setting.endswith("password=***")


@pytest.mark.requirement("R-INV-18")
def test_the_environment_is_named_by_what_matters(tmp_path: Path) -> None:
    copy = tmp_path / "capture"
    shutil.copytree(CAPTURES / "x86_64-128g", copy)
    first = inventory_hash(inspect_capture(copy))
    assert first == inventory_hash(captured("x86_64-128g"))
    assert len(first) == 12
    for key, old, new in (
        ("commands/statvfs.json", "3221225472000", "1000"),
        ("postgres/server.json", "864000.0", "1.0"),
        ("proc/meminfo", "MemAvailable:    67108864", "MemAvailable:    1000"),
        ("postgres/database_sizes.json", str(60 * GB), "1"),
        ("capture.json", "2026-03-02", "2027-03-02"),
    ):
        changed = copy / key
        text = changed.read_text()
        assert old in text
        changed.write_text(text.replace(old, new))
        assert inventory_hash(inspect_capture(copy)) == first
    sysctl = copy / "commands/sysctl.txt"
    sysctl.write_text(sysctl.read_text().replace("vm.swappiness = 60", "vm.swappiness = 1"))
    assert inventory_hash(inspect_capture(copy)) != first


@pytest.mark.requirement("R-VER-15")
def test_data_checksums_are_part_of_the_environments_name() -> None:
    inventory = captured("x86_64-128g")
    names = {
        inventory_hash(replace(inventory, server=replace(server_of(inventory), data_checksums=value)))
        for value in (True, False, Unknown("not shown"))
    }
    assert len(names) == 3


@pytest.mark.requirement("R-INV-20")
def test_the_size_is_classed_against_the_memory() -> None:
    assert captured("x86_64-128g").size is SizeClass.MEDIUM
    assert captured("s390x-drawer").size is SizeClass.LARGE
    assert captured("s390x-lpar-4ifl").size is SizeClass.SMALL
    assert isinstance(captured("pg95").size, Unknown)


def test_the_time_and_origin_of_a_capture_are_kept() -> None:
    inventory = captured("x86_64-128g")
    assert inventory.taken_at == json.loads((CAPTURES / "x86_64-128g/capture.json").read_text())["taken_at"]
    assert inventory.origin.endswith("x86_64-128g")
