"""The tool that keeps generated pages: what is stale, what --check says, and what it writes."""

from pathlib import Path

import pytest

import generated


def test_a_stale_a_missing_and_a_left_over_page_are_found_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("old")
    (tmp_path / "gone.md").write_text("nobody asked")
    wanted = {"a.md": "new", "b.md": "new"}
    assert generated.stale(wanted, tmp_path) == ["a.md", "b.md", "gone.md"]
    assert generated.keep_folder(wanted, tmp_path, ["tool", "--check"]) == 1
    assert "gone.md is stale: run make docs" in capsys.readouterr().err
    assert generated.keep_folder(wanted, tmp_path, ["tool"]) == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == wanted
    assert generated.keep_folder(wanted, tmp_path, ["tool", "--check"]) == 0


def test_one_page_is_checked_and_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert generated.keep_page("text", page, ["--check"]) == 1
    assert not page.exists(), "a check writes nothing"
    assert generated.keep_page("text", page, []) == 0
    assert generated.keep_page("text", page, ["--check"]) == 0
    assert generated.keep_page("other", page, ["--check"]) == 1
