"""Small files of the kernel, and what cannot be read of them."""

from __future__ import annotations

from pathlib import Path

from pgdyno.linux.small_files import read_leniently


def test_what_is_no_utf8_is_replaced_and_what_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"a\xffb\n")
    assert read_leniently(tmp_path / "odd") == "a\ufffdb\n"
    assert read_leniently(tmp_path / "gone") is None
    assert read_leniently(tmp_path) is None
