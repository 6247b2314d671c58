"""The page of `pgdyno inspect`: grouped, unknown as unknown, the storage as a tree; and its JSON."""

from __future__ import annotations

import json

import pytest

from captured import CAPTURES, captured
from pgdyno.errors import UsageError
from pgdyno.inventory.digest import inventory_hash
from pgdyno.report.inventory_json import inventory_json
from pgdyno.report.inventory_page import SECTIONS, inventory_text


@pytest.mark.parametrize(
    "name", sorted(path.name for path in CAPTURES.iterdir() if path.is_dir() and path.name != "loose")
)
def test_every_capture_has_a_page_with_every_section(name: str) -> None:
    inventory = captured(name)
    text = inventory_text(inventory)
    named = f"environment {inventory.environment_name}, inventory {inventory_hash(inventory)}"
    assert text.startswith(f"{named}, from ")
    for section in SECTIONS:
        assert f"\n{section.upper()}\n" in f"{text}\n"
    assert "Unknown(" not in text
    assert "None" not in text
    written = json.loads(json.dumps(inventory_json(inventory)))
    assert written["inventory_hash"] == inventory_hash(inventory)
    assert written["environment"] == {"unknown": "the capture was made by hand, or by an earlier version"}


def test_the_storage_is_a_tree_down_to_the_disks() -> None:
    lines = inventory_text(captured("s390x-lpar-128g"), ["storage"]).splitlines()
    drawn = [line.strip().split(",")[0] for line in lines if "└" in line or "├" in line or "│" in line]
    assert drawn[1] == "└ dm-6 (crypt"
    assert drawn[2] == "└ dm-4 (lvm"
    assert drawn[3:6] == ["├ dm-0 (mpath", "│ ├ sda (disk)", "│ └ sdb (disk)"]
    assert any("└ where data is" in line for line in lines)  # the log, drawn once already


@pytest.mark.requirement("R-INV-09")
def test_each_segment_of_a_volume_has_its_physical_volumes() -> None:
    text = inventory_text(captured("loose/s390x-qemu-6.1-lvm"), ["storage"])
    assert "edb_logs, linear" in text
    assert "on /dev/vda; /dev/vdb" in text


def test_settings_that_somebody_set_come_with_their_place_and_default() -> None:
    text = inventory_text(captured("x86_64-128g"), ["settings"])
    assert "max_connections  200" in text
    assert "postgresql.conf:2, default 100" in text
    assert "work_mem" not in text
    assert "PROCESSOR" not in text


def test_the_places_of_settings_stand_below_each_other_but_for_a_value_that_is_long() -> None:
    lines = inventory_text(captured("s390x-lpar-128g"), ["settings"]).splitlines()
    places = {line.split()[0]: line.index("postgresql.conf") for line in lines if "postgresql.conf:" in line}
    long = places.pop("shared_preload_libraries")
    assert "data_directory" in places, "its value has nineteen characters"
    assert len(set(places.values())) == 1
    assert long > places["port"]


def test_what_is_unknown_says_why() -> None:
    text = inventory_text(captured("ppc64le-64k"), ["kernel"])
    assert "unknown (/sys/kernel/debug/sched/migration_cost_ns: permission denied, only root may)" in text


def test_a_section_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match='"disks" is not one of'):
        inventory_text(captured("x86_64-128g"), ["disks"])


def test_json_of_a_section_holds_that_section() -> None:
    found = inventory_json(captured("x86_64-128g"), ["memory"])
    assert found.keys() == {"environment", "origin", "taken_at", "criticality", "host"}
    host = found["host"]
    assert isinstance(host, dict)
    assert host.keys() == {"memory"}
    assert host["memory"]["ram_bytes"] == 128 << 30
    broken = inventory_json(captured("broken"))
    assert isinstance(broken["server"], dict)
    assert broken["server"].keys() == {"unknown"}


@pytest.mark.requirement("R-INV-03")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("loose/x86_64-vm-6.18", "2 virtual ones of KVM, threads per core: 1"),
        ("ppc64le-64k", "8 virtual ones of PowerVM, threads per core: 8"),
        ("s390x-lpar-128g", "24, threads per core: 2"),
        ("x86_64-128g", "16, threads per core: 2"),
    ],
)
def test_virtual_cores_are_told_from_real_ones(name: str, words: str) -> None:
    assert f"cores           {words}" in inventory_text(captured(name), ["processor"])


@pytest.mark.requirement("R-INV-01", "R-INV-02", "R-INV-04")
def test_a_machine_of_z_has_its_name_and_its_cpus_their_drawers() -> None:
    text = inventory_text(captured("s390x-drawer"), ["processor"])
    assert "machine 3931 (z16)" in text
    assert "drawer 0: 12 (0-11)" in text
    assert "drawer 1: 12 (12-23)" in text
    guest = inventory_text(captured("loose/s390x-qemu-6.1"), ["processor"])
    assert [f"drawer {number}: 1 ({number})" in guest for number in range(4)] == [True] * 4
    assert "CPUs lie in" not in inventory_text(captured("x86_64-128g"), ["processor"])


def test_a_capture_that_lacks_nothing_says_so() -> None:
    assert inventory_text(captured("s390x-lpar-128g"), ["missing"]).endswith("each section has its own reasons")


@pytest.mark.parametrize("room", [60, 80])
def test_a_terminal_gets_lines_of_its_width_with_every_word_whole(room: int) -> None:
    for name in ("s390x-lpar-128g", "loose/s390x-qemu-6.1-lvm"):
        wide, narrow = (inventory_text(captured(name), room=columns) for columns in (None, room))
        assert narrow.split() == wide.split()
        assert all(len(line) <= room or max(map(len, line.split())) > room // 3 for line in narrow.splitlines())
