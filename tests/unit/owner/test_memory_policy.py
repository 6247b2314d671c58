"""The NUMA policy of a process: read as the kernel writes it, and given to another process as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pgdyno.owner import memory_policy

_TAKE_ON = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pgdyno.owner import memory_policy
memory_policy.write(sys.argv[2])
os.execv(sys.executable, [sys.executable, "-c", "print('here', flush=True); input()"])
"""


@pytest.mark.parametrize(
    ("line", "policy"),
    [
        ("5581 default file=/bin/postgres mapped=1 N0=1 kernelpagesize_kB=4", "default"),
        ("5581 interleave:0-1 file=/bin/postgres", "interleave:0-1"),
        ("5581 bind=static:0,2-3 heap", "bind=static:0,2-3"),
        ("5581 prefer (many):0-1 heap", "prefer (many):0-1"),
        ("5581 weighted interleave:0", "weighted interleave:0"),
    ],
)
def test_it_is_read_as_the_kernel_writes_it(line: str, policy: str, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "numa_maps").write_text(f"{line}\n{'x' * 10_000}")
    assert memory_policy.read(7, tmp_path) == policy


@pytest.mark.parametrize("policy", ["nonsense", "bind=odd:0", "interleave:5000"])
def test_what_is_not_understood_is_not_set(policy: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - of no errno
        memory_policy.write(policy)


@pytest.mark.parametrize("policy", ["interleave:0", "bind:0", "prefer:0", "local", "bind=static:0"])
def test_another_process_gets_it(policy: str) -> None:
    root = str(Path(memory_policy.__file__).parents[2])
    words = [sys.executable, "-I", "-S", "-c", _TAKE_ON, root, policy]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            if process.stdout.readline() != b"here\n":
                pytest.skip(process.stderr.read().decode()[-200:])
            assert memory_policy.read(process.pid) == policy
        except FileNotFoundError:
            pytest.skip("this kernel has no NUMA")
        finally:
            process.kill()
