"""Small files of the kernel, and what cannot be read of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgdyno.linux.small_files import KeptFiles, read_leniently, read_small


def test_what_is_no_utf8_is_replaced_and_what_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"a\xffb\n")
    assert read_leniently(tmp_path / "odd") == "a\ufffdb\n"
    assert read_leniently(tmp_path / "gone") is None
    assert read_leniently(tmp_path) is None


def test_a_kept_file_is_opened_once_and_read_anew_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read, opened = tmp_path / "memory.current", KeptFiles(), []
    path.write_text("1\n")
    real = os.open
    monkeypatch.setattr(os, "open", lambda name, flags: opened.append(name) or real(name, flags))
    assert read(str(path)) == "1\n"
    path.write_text("longer than it was\n" * 2000)
    assert read(str(path)) == "longer than it was\n" * 2000
    assert opened == [str(path)]


def test_a_kept_file_of_the_kernel_is_of_now() -> None:
    read = KeptFiles()
    for name in ("meminfo", "vmstat", "stat"):
        first = read(f"/proc/{name}")
        again = read(f"/proc/{name}")
        assert len(again) > len(first) / 2
        assert again.split()[0] == first.split()[0] == read_small(f"/proc/{name}").split()[0]
    assert read("/proc/sys/kernel/random/uuid") != read("/proc/sys/kernel/random/uuid"), "a new one for each read"


def test_a_kept_file_that_has_gone_is_opened_again_by_its_name(tmp_path: Path) -> None:
    path, read = tmp_path / "memory.events", KeptFiles()
    path.write_text("oom_kill 1\n")
    read(str(path))
    os.close(read._open[str(path)])
    closed = os.open("/proc/self", os.O_RDONLY)  # what a read of a group that is gone is: an error
    read._open[str(path)] = closed
    assert read(str(path)) == "oom_kill 1\n"
    path.unlink()
    os.close(read._open.pop(str(path)))
    with pytest.raises(FileNotFoundError, match=r"memory\.events"):
        read(str(path))


def test_kept_files_are_closed_with_their_reader(tmp_path: Path) -> None:
    path, read = tmp_path / "memory.max", KeptFiles()
    path.write_text("max\n")
    read(str(path))
    descriptor = read._open[str(path)]
    del read
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
