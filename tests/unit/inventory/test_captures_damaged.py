"""Captures that are cut, odd or not ours: unknown with the reason or one clear error, never half a number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from captured import CAPTURES, LOOSE, captured
from pgdyno.capture.folder import load_folder
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.inventory.inspection import inspect_capture
from pgdyno.inventory.kernel import parse_sysctls
from pgdyno.inventory.reading import read_inventory
from pgdyno.inventory.settings_file import parse_settings
from pgdyno.model.facts import Unknown

FOLDERS = sorted(path.name for path in CAPTURES.iterdir() if path.is_dir() and path.name != "loose")
SECTIONS = ("processor", "memory", "kernel", "virtualization", "devices", "places", "mounts", "server")
GB = 1 << 30
MB = 1 << 20


@pytest.mark.requirement("R-ARC-04")
def test_an_unknown_architecture_is_named_and_nothing_of_it_made_up() -> None:
    host = captured("unknown-arch").host
    assert host.processor.architecture == "riscv64"
    assert host.processor.cpus == 2
    assert isinstance(host.memory.page_size, Unknown)
    assert isinstance(host.virtualization.layer, Unknown)
    assert isinstance(host.processor.scattered, Unknown)


@pytest.mark.requirement("R-INV-19")
def test_what_was_cut_is_unknown_and_never_half_a_number() -> None:
    inventory = captured("broken")
    host = inventory.host
    for fact in (host.memory.ram_bytes, host.memory.swap, host.processor.cpus, host.processor.scattered, host.devices):
        assert isinstance(fact, Unknown)
        assert fact.reason
    assert isinstance(inventory.server, Unknown)
    assert host.kernel.sysctls == {"vm.dirty_ratio": "20"}
    assert "capture.json" in inventory.missing


@pytest.mark.parametrize("folder", [*FOLDERS, *(f"loose/{path.name}" for path in LOOSE.iterdir())])
def test_any_single_text_may_be_missing_or_cut(folder: str) -> None:
    whole = load_folder(CAPTURES / folder)
    for key, text in whole.texts.items():
        others = {other: kept for other, kept in whole.texts.items() if other != key}
        read_inventory(replace(whole, texts=others))
        cut = read_inventory(replace(whole, texts={**others, key: text[: len(text) // 2]}))
        assert not [name for name in cut.missing if name in SECTIONS], f"{key}: {cut.missing}"


def test_a_folder_without_anything_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(EnvironmentUnsuitable, match="holds nothing"):
        inspect_capture(tmp_path)
    with pytest.raises(UsageError, match="is not a folder"):
        inspect_capture(tmp_path / "absent")


def test_a_last_line_without_an_end_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "uname.txt").write_text("Linux h 6.1.0 #1 SMP s390x GNU/Linux")
    (tmp_path / "meminfo.txt").write_text("MemTotal: 1024 kB\nHugePages_Total: 38")
    (tmp_path / "cpuinfo.txt").write_text("vendor_id : IBM/S390\nmax thread id : 1\nfeatures\t: esan3 zarch ed")
    inventory = inspect_capture(tmp_path)
    assert isinstance(inventory.host.memory.huge_pages_total, Unknown)
    assert isinstance(inventory.host.memory.huge_pages_supported, Unknown)  # `edat` may have stood behind the cut
    assert "proc/meminfo (end)" in inventory.missing
    assert inventory.host.kernel.release == "6.1.0"  # a single line is whole without an end


def test_a_line_that_names_no_sysctl_is_left_out() -> None:
    text = "vm.swappiness = 10\nnet/ipv4/ip_forward=1\n\ufffdx.y = 3\nnothing = 1\n= 5\n# kernel.sem = 1\n"
    names = set(parse_sysctls(f"{text}-vm.dirty_ratio = 5\n"))
    assert names == {"vm.swappiness", "net.ipv4.ip_forward", "vm.dirty_ratio"}


@pytest.mark.requirement("R-SAF-10")
def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    """A capture that somebody sent must not put a file of this machine into a report that goes back to them."""
    (tmp_path / "ours").write_text("MemTotal: 1 kB, and a secret of ours\n")
    folder = tmp_path / "theirs"
    (folder / "proc").mkdir(parents=True)
    (folder / "proc" / "swaps").write_text("Filename Type Size Used Priority\n")
    (folder / "proc" / "meminfo").symlink_to("../../ours")
    (folder / "proc" / "cmdline").symlink_to(folder / "proc" / "swaps")
    (folder / "capture.json").symlink_to(tmp_path / "ours")
    found = load_folder(folder)
    assert set(found.texts) == {"proc/swaps", "proc/cmdline"}
    assert "out of the folder" in found.missing["proc/meminfo"]
    assert "out of the folder" in found.missing["capture.json"]


@pytest.mark.parametrize("text", ['a,"b\rc\nd\re', "\x00\x01,\ufffd\r\r", "[" * 100_000, "name,setting\r\r\n,", "|"])
def test_settings_that_are_no_settings_are_one_clear_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_settings(text)
