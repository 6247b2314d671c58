"""Cores, sockets and threads of a set of CPUs, from topology files of several machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.linux.host import CPUS, CpuPlaces, cpu_places, read_host
from pgdyno.model.facts import Unknown


def machine(cores: int, threads: int, sockets: int = 1, **above: str) -> dict[Path, str]:
    """Return the files of a machine whose threads of one core have neighbouring numbers."""
    files = {}
    for cpu in range(cores * threads * sockets):
        core, package = cpu // threads, cpu // (threads * cores)
        first = core * threads
        texts = {
            "core_id": f"{core % cores}\n",
            "physical_package_id": f"{package}\n",
            "thread_siblings_list": f"{first}-{first + threads - 1}\n" if threads > 1 else f"{cpu}\n",
            **above,
        }
        files |= {CPUS / f"cpu{cpu}" / "topology" / name: text for name, text in texts.items()}
    return files


@pytest.mark.requirement("R-CMP-02")
@pytest.mark.parametrize(
    ("files", "cpus", "expected"),
    [
        (machine(8, 8), range(64), CpuPlaces(8, 1, 8)),
        (machine(16, 2), range(32), CpuPlaces(16, 1, 2)),
        (machine(4, 2, 2), range(16), CpuPlaces(8, 2, 2)),
        (machine(4, 2, 2), [0, 2, 9], CpuPlaces(3, 2, 2)),
        (machine(2, 1, drawer_id="1", book_id="2"), range(2), CpuPlaces(2, 1, 1)),
    ],
)
def test_what_a_set_of_cpus_spans(files: dict[Path, str], cpus: list[int], expected: CpuPlaces) -> None:
    assert cpu_places(cpus, files.get) == expected


def test_what_the_kernel_does_not_show_is_unknown() -> None:
    files = machine(2, 1)
    del files[CPUS / "cpu1" / "topology" / "core_id"]
    assert isinstance(cpu_places(range(2), files.get).cores, Unknown)
    hidden = {path: "-1\n" if path.name == "physical_package_id" else text for path, text in machine(2, 1).items()}
    assert isinstance(cpu_places(range(2), hidden.get).sockets, Unknown)
    uneven = machine(2, 2) | {CPUS / "cpu3" / "topology" / "thread_siblings_list": "3\n"}
    assert isinstance(cpu_places(range(4), uneven.get).threads_per_core, Unknown)


def test_this_machine_has_no_more_cores_than_cpus(tmp_path: Path) -> None:
    host = read_host(tmp_path)
    if isinstance(host.physical_cores, int) and isinstance(host.cores, int):
        assert 1 <= host.physical_cores <= host.cores
    assert isinstance(host.data_block_size, int)
