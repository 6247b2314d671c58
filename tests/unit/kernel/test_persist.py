"""Files that persist Linux knobs: what goes where, what is never written, and what is not overwritten."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.persist import command
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.kernel.kernel_facts import read_kernel
from pgdyno.kernel.persist import MARK, artefacts, write_artefacts
from pgdyno.knobs.linux import checked_for_persisting
from pgdyno.linux.block_devices import KernelPlaces, nowhere
from pgdyno.model import linux
from simulated_kernel import SimulatedKernel, lvm

DISK = KernelPlaces(("vda",), ("vda",))
KNOBS = {linux.DIRTY_BYTES: "536870912", linux.THP_ENABLED: "never", linux.MIGRATION_COST: "50000"}
SYSCTL, UNIT = "/etc/sysctl.d/90-pgdyno.conf", "/etc/systemd/system/pgdyno-kernel.service"
RULES = "/etc/udev/rules.d/90-pgdyno.rules"


def texts(knobs: dict[str, str], tree: SimulatedKernel, places: KernelPlaces = DISK) -> dict[str, str]:
    return {file.path: file.text for file in artefacts(knobs, places, tree=tree)}


def test_each_kind_of_knob_has_its_file(tmp_path: Path) -> None:
    files = texts({**KNOBS, linux.SCHEDULER: "none"}, SimulatedKernel(tmp_path))
    assert list(files) == [SYSCTL, "/etc/tmpfiles.d/pgdyno.conf", RULES, UNIT]
    assert files[SYSCTL].splitlines()[1:] == ["vm.dirty_bytes = 536870912"]
    assert "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never\n" in files["/etc/tmpfiles.d/pgdyno.conf"]
    assert "echo 50000 > /sys/kernel/debug/sched/migration_cost_ns" in files[UNIT]
    assert all(text.startswith(MARK) for text in files.values())


def test_the_migration_cost_is_a_sysctl_only_below_5_13(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    assert "migration" not in texts(KNOBS, tree)[SYSCTL]
    tree.place("/proc/sys/kernel/osrelease", "4.18.0\n")
    files = texts(KNOBS, tree)
    assert "kernel.sched_migration_cost_ns = 50000" in files[SYSCTL]
    assert UNIT not in files


def test_block_devices_are_named_by_what_lasts(tmp_path: Path) -> None:
    tree = lvm(tmp_path)
    tree.place("/sys/block/vda/serial", "DISK-0001\n")
    tree.place("/sys/block/vdb/serial", 'a"b*\n')
    knobs = {linux.SCHEDULER: "none", linux.READ_AHEAD: "4096"}
    lines = texts(knobs, tree, KernelPlaces(("dm-0",), ("vda", "vdb")))[RULES].splitlines()
    assert [line.split(", ")[-2:] for line in lines[1:]] == [
        ['ATTR{serial}=="DISK-0001"', 'ATTR{queue/scheduler}="none"'],
        ['KERNEL=="vdb"', 'ATTR{queue/scheduler}="none"'],
        ['ATTR{dm/name}=="edbvg-edb_data"', 'ATTR{queue/read_ahead_kb}="4096"'],
    ]


def test_what_cannot_be_persisted_says_so(tmp_path: Path) -> None:
    tree = SimulatedKernel(tmp_path)
    with pytest.raises(EnvironmentUnsuitable, match="block devices"):
        artefacts({linux.SCHEDULER: "none"}, nowhere("no data directory was named"), tree=tree)
    with pytest.raises(UsageError, match="by hand"):
        artefacts({linux.SWAP_AREA: "1048576"}, DISK, tree=tree)


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    root, files = tmp_path / "root", artefacts(KNOBS, DISK, tree=SimulatedKernel(tmp_path / "tree"))
    theirs = root / "etc/tmpfiles.d/pgdyno.conf"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("w /sys/theirs - - - - 1\n")
    with pytest.raises(UsageError, match="was not written by pgdyno"):
        write_artefacts(files, root)
    assert [path for path in root.rglob("*") if path.is_file()] == [theirs], "nothing was written before the refusal"
    theirs.unlink()
    assert write_artefacts(files, root) == write_artefacts(files, root)
    assert (root / SYSCTL.lstrip("/")).stat().st_mode & 0o777 == 0o644
    assert not (root / "etc/sysctl.conf").exists()


def test_values_are_checked_before_they_are_written(tmp_path: Path) -> None:
    kernel = read_kernel(DISK, tree=SimulatedKernel(tmp_path))
    assert checked_for_persisting({linux.DIRTY_BYTES: "512MB"}, kernel) == {linux.DIRTY_BYTES: "536870912"}
    assert checked_for_persisting({linux.GOVERNOR: "performance"}, kernel) == {linux.GOVERNOR: "performance"}
    for knobs in (
        {linux.THP_ENABLED: "sometimes"}, {linux.GOVERNOR: "x' > /etc/passwd"}, {linux.SWAPPINESS: "1000"},
        {linux.DIRTY_BYTES: "1GB", linux.DIRTY_RATIO: "10"},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            checked_for_persisting(knobs, kernel)


def test_the_verb_prints_by_default_and_writes_when_told(tmp_path: Path) -> None:
    conf = tmp_path / "mine.conf"
    conf.write_text("vm.dirty_bytes = 512MB\nwork_mem = 8MB\n")

    def run(*flags: str) -> dict[str, list[object]]:
        done = CliRunner().invoke(command, [str(conf), "--root", str(tmp_path / "image"), "--json", *flags])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    printed = run()
    assert printed["written"] == []
    assert printed["left_out"] == ["work_mem"]
    assert not (tmp_path / "image").exists()
    assert run("--apply")["written"] == [str(tmp_path / "image/etc/sysctl.d/90-pgdyno.conf")]
    text = CliRunner().invoke(command, [str(conf)]).output
    assert f"to load it:   sysctl -p {SYSCTL}" in text
    assert f"to remove it: rm {SYSCTL}" in text


@pytest.mark.skipif(shutil.which("sysctl") is None, reason="procps is not installed")
def test_sysctl_reads_the_file(tmp_path: Path) -> None:
    files = artefacts(KNOBS, DISK, tree=SimulatedKernel(tmp_path / "tree"))
    written = write_artefacts(files, tmp_path / "root")[0]
    done = subprocess.run(["sysctl", "--dry-run", "-p", str(written)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "vm.dirty_bytes = 536870912")
