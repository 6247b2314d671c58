"""The commands of the storage rules on a real block device: read-ahead in sectors, schedulers by name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor_case import finding_of, make_case
from pgdyno.advisor.rules.io_scheduler import CURRENT
from pgdyno.advisor.rules.read_ahead import SWEEP_KB, Top, change_of
from pgdyno.model.finding import Answer
from storage_case import disk, simple_host

pytestmark = [
    pytest.mark.host,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="block devices are root's"),
]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Path]:
    """The queue folder of a loop device of this test alone; its settings are put back, because its number is reused."""
    file = tmp_path / "disk"
    with file.open("wb") as opened:
        opened.truncate(64 << 20)
    made = subprocess.run(["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"this machine gives no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    folder = Path("/sys/block") / Path(device).name / "queue"
    ahead, scheduler = (folder / "read_ahead_kb").read_text().strip(), chosen(folder)
    try:
        yield folder
    finally:
        (folder / "scheduler").write_text(scheduler)
        (folder / "read_ahead_kb").write_text(ahead)
        subprocess.run(["losetup", "--detach", device], check=True)


def offered(folder: Path) -> list[str]:
    return (folder / "scheduler").read_text().replace("[", "").replace("]", "").split()


def chosen(folder: Path) -> str:
    text = (folder / "scheduler").read_text()
    return text.partition("[")[2].partition("]")[0] if "[" in text else text.strip()


def run(command: str) -> None:
    subprocess.run(["sh", "-euc", command], check=True)


@pytest.mark.requirement("R-STO-24", "R-STO-26")
def test_the_sweep_sets_kib_by_sectors_and_undo_puts_it_back(queue: Path) -> None:
    name, before = queue.parent.name, int((queue / "read_ahead_kb").read_text())
    for kb in SWEEP_KB:
        change = change_of(Top("/p", disk(name), None, before), kb)
        run(change.commands[0])
        assert (queue / "read_ahead_kb").read_text().strip() == str(kb)
        run(change.undo[0])
        assert int((queue / "read_ahead_kb").read_text()) == before


@pytest.mark.requirement("R-STO-27", "R-STO-28")
def test_the_schedulers_of_this_kernel_are_known_and_bfq_is_replaced(queue: Path) -> None:
    names = offered(queue)
    assert set(names) <= set(CURRENT), "this kernel has a scheduler that the rule does not know"
    if "bfq" not in names:
        pytest.skip(f"this kernel offers {', '.join(names)} and no bfq")
    (queue / "scheduler").write_text("bfq")
    device = disk(queue.parent.name, "nvme", scheduler=chosen(queue), schedulers=tuple(names))
    finding = finding_of("io-scheduler", make_case(simple_host(device)))
    assert finding.answer is Answer.FINDING
    (change,) = finding.changes
    run(change.commands[0])
    assert chosen(queue) == change.value == "none"
    run(change.undo[0])
    assert chosen(queue) == "bfq"
