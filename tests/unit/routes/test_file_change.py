"""The plan of a rollback: every line that changes, nothing that may be a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.owner.durable import temporary_path
from pgdyno.owner.file_image import capture
from pgdyno.owner.hands import OURS, Hands
from pgdyno.routes.dropin import DropIn, with_include
from pgdyno.routes.file_change import FileChange, plan_lines
from pgdyno.routes.three_way import Merge


def test_a_plan_shows_lines_and_what_stays(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.conf"
    path.write_bytes(b"port = 1\nwork_mem = 8MB\n")
    image, _ = capture(path)
    found = b"port = 1\nwork_mem = 8MB\ninclude_if_exists 'pgdyno.conf'\n"
    path.write_bytes(found)
    change = FileChange(image, found, Merge(b"port = 1\nwork_mem = 8MB\n", is_image=False), ("a note",))
    assert plan_lines([change]) == [
        f"--- {path}", f"+++ {path}", "@@ -3 +2,0 @@", "-include_if_exists 'pgdyno.conf'", "note: a note",
    ]  # fmt: skip
    assert change.carry_out()
    assert change.is_done() is False, "what was found was another file"
    again = FileChange(image, path.read_bytes(), Merge(path.read_bytes(), is_image=False))
    assert not again.carry_out()
    assert plan_lines([again]) == [f"{path}: nothing to change"]


def test_what_a_killed_write_left_beside_a_file_goes_also_where_the_file_itself_needs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.conf"
    path.write_bytes(b"port = 1\n")
    image, _ = capture(path)
    for merge in (Merge(b"port = 1\n", is_image=False), Merge(b"port = 1\n", is_image=True)):
        temporary_path(path).write_bytes(b"half")
        assert not FileChange(image, b"port = 1\n", merge).carry_out()
        assert [one.name for one in tmp_path.iterdir()] == ["postgresql.conf"]


@pytest.mark.parametrize("is_image", [False, True])
def test_what_somebody_writes_in_the_very_moment_is_not_overwritten(tmp_path: Path, is_image: bool) -> None:
    path = tmp_path / "postgresql.conf"
    path.write_bytes(b"port = 1\n")
    image, _ = capture(path)
    change = FileChange(image, b"port = 1\n# ours\n", Merge(b"port = 1\n", is_image=is_image))
    path.write_bytes(b"port = 1\n# ours\n# theirs\n")
    with pytest.raises(OSError, match="changed in this moment"):
        change.carry_out()
    assert path.read_bytes() == b"port = 1\n# ours\n# theirs\n"
    assert [one.name for one in tmp_path.iterdir()] == ["postgresql.conf"]
    absent = FileChange(capture(tmp_path / "pgdyno.conf")[0], b"# ours\n", Merge(None, is_image=True))
    absent.path.write_bytes(b"# theirs\n")
    with pytest.raises(OSError, match="changed in this moment"):
        absent.carry_out()


def test_our_line_goes_behind_what_somebody_writes_in_the_very_moment(tmp_path: Path) -> None:
    main = tmp_path / "postgresql.conf"
    main.write_bytes(b"port = 1\n")
    edits = [b"port = 1\n# theirs\n"]

    def call(name: str, given: dict[str, object]) -> object:
        if name == "put" and edits:
            main.write_bytes(edits.pop())
        return OURS.call(name, given)

    DropIn(main, Hands(OURS.account, call)).include()
    assert main.read_bytes() == with_include(b"port = 1\n# theirs\n")


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.conf"
    image, _ = capture(path)
    change = FileChange(image, b"primary_conninfo = 'password=hush'\nport = 1\n", Merge(None, is_image=True))
    path.write_bytes(b"x")
    text = "\n".join(plan_lines([change]))
    assert "hush" not in text
    assert "-primary_conninfo = (not shown)" in text
    assert "-port = 1" in text
    assert "+++ removed" in text
