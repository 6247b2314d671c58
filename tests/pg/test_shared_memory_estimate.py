"""The computed size of shared memory against what real servers of 15 and later say, and VmPeak of a running one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor_case import GB, MB, make_case
from fix_postgres import NIGHT, find_build
from kernel_case import buffers
from pgdyno.advisor.shared_memory import need_now
from pgdyno.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.pg
BUILDS = ["debian-15", "embedded-18", *(["npm-16", "npm-17"] if NIGHT else [])]


@pytest.mark.requirement("R-KRN-14")
@pytest.mark.parametrize("build", BUILDS)
def test_the_formula_is_within_two_percent_of_the_servers_own_figure(
    build: str, make_sandbox: Callable[..., Sandbox]
) -> None:
    sandbox = make_sandbox(f"memory-{build}", bin_dir=find_build(build))
    target = sandbox.target()
    sandbox.start()  # which writes the configuration
    sandbox.stop()  # a running server keeps `postgres -C` out
    for size in (GB, 16 * GB, 32 * GB, 64 * GB):
        for connections in (100, 1000):
            words = ["-c", f"shared_buffers={size // MB}MB", "-c", f"max_connections={connections}"]
            done = target.runner.run(
                [
                    str(target.bin_dir / "postgres"),
                    "-D",
                    str(sandbox.data_directory),
                    *words,
                    "-C",
                    "shared_memory_size",
                ],
                env={"LC_ALL": "C"},
                user=target.os_user,
                timeout_s=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            said = int(done.stdout) * MB
            need = need_now(make_case(server=buffers(size, int(build[-2:]), max_connections=str(connections))))
            assert need.bytes == pytest.approx(said, rel=0.02)
            assert need.pool(2 * MB) * 2 * MB >= said  # what counts: the pool holds it


@pytest.mark.requirement("R-KRN-14", "R-KRN-15")
def test_the_postmasters_peak_is_the_need_and_little_more(sandbox18: Sandbox) -> None:
    target = sandbox18.target()
    (row,) = target.postgres.fetch("SELECT setting FROM pg_settings WHERE name = 'shared_memory_size'")
    pid = sandbox18.data_directory.joinpath("postmaster.pid").read_text().split()[0]
    status = Path(f"/proc/{pid}/task/{pid}/status").read_text()
    peak = int(re.search(r"VmPeak:\s+(\d+) kB", status)[1]) * 1024
    said = int(str(row["setting"])) * MB
    assert said <= peak <= said + 128 * MB
