"""The drop-in and its include line, as text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.owner.hands import OURS, Hands
from pgdyno.owner.tasks import TASKS
from pgdyno.routes.dropin import LONGEST, DropIn, render, session_named_in, with_include


def test_it_says_who_wrote_it_and_how_to_undo() -> None:
    data = render(Configuration.of({"work_mem": "8MB"}), session="20260101T000000Z-x").decode()
    assert data.splitlines()[-2:] == ["work_mem = '8MB'", "# end of pgdyno session 20260101T000000Z-x"]
    assert "pgdyno rollback 20260101T000000Z-x" in data
    assert session_named_in(data.encode()) == "20260101T000000Z-x"


def test_what_was_there_before_stays_in_front() -> None:
    data = render(Configuration.of({"work_mem": "8MB"}), session="s", original=b"random_page_cost = 1.1")
    lines = data.decode().splitlines()
    assert lines[0] == "random_page_cost = 1.1"
    assert lines[-2] == "work_mem = '8MB'"


def test_a_file_of_somebody_else_names_no_session() -> None:
    assert session_named_in(b"# my settings\nwork_mem = 8MB\n") is None


@pytest.mark.parametrize("name", ["", "work_mem = 1\nfsync", "1st", "a b", "a.b.", "ssl;"])
def test_a_name_cannot_break_out_of_its_line(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a knob"):
        render(Configuration.of({name: "1"}), session="s")


@pytest.mark.parametrize("value", ["1\nfsync = off", "a\\'b", "\x00", "a\tb"])
def test_a_value_cannot_break_out_of_its_line(value: str) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        render(Configuration.of({"work_mem": value}), session="s")


def test_quotes_in_a_value_are_doubled() -> None:
    assert b"x.y = 'it''s'" in render(Configuration.of({"x.y": "it's"}), session="s")


@given(st.binary(max_size=200))
def test_the_original_stays_a_prefix_of_the_main_file(main: bytes) -> None:
    changed = with_include(main)
    assert changed.startswith(main)
    assert changed.decode(errors="replace").splitlines()[-1] == "include_if_exists 'pgdyno.conf'"


@pytest.mark.parametrize(
    ("text", "included"),
    [
        ("include_if_exists 'pgdyno.conf'", True),
        ("include = 'pgdyno.conf'\n", True),
        ("  Include_If_Exists='{dir}/pgdyno.conf'", True),
        ("# include_if_exists 'pgdyno.conf'", False),
        ("include_if_exists 'other/pgdyno.conf'", False),
        ("include_dir 'conf.d'", False),
        ("", False),
    ],
)
def test_the_include_line_is_recognised(tmp_path: Path, text: str, included: bool) -> None:
    main = tmp_path / "postgresql.conf"
    main.write_text(text.format(dir=tmp_path))
    assert DropIn(main).is_included() is included


def test_include_is_added_once_and_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "postgresql.conf"
    real.write_text("port = 5432")
    (tmp_path / "postgresql.conf").symlink_to(real)
    dropin = DropIn(tmp_path / "postgresql.conf")
    dropin.include()
    dropin.include()
    assert (tmp_path / "postgresql.conf").is_symlink()
    assert real.read_text().count("include_if_exists") == 1
    assert dropin.path == tmp_path / "pgdyno.conf"


def test_a_file_that_is_too_long_is_never_cut(tmp_path: Path) -> None:
    main = tmp_path / "postgresql.conf"
    main.write_text("port = 5432\n")
    os.truncate(main, LONGEST + 1)
    with pytest.raises(OSError, match="longer than 64 MB"):
        DropIn(main).include()
    assert main.stat().st_size == LONGEST + 1


@pytest.mark.parametrize("times", [1, 1000])
def test_a_line_that_somebody_adds_meanwhile_stays(tmp_path: Path, times: int) -> None:
    main = tmp_path / "postgresql.conf"
    main.write_text("port = 5432\n")
    added = iter(range(times))

    def call(name: str, given: dict[str, object]) -> object:
        answer = TASKS[name](**given)
        if name == "read" and (number := next(added, None)) is not None:
            main.write_text(main.read_text() + f"# theirs {number}\n")
        return answer

    dropin = DropIn(main, Hands(OURS.account, call))
    if times > 1:
        with pytest.raises(OSError, match="changed in this moment"):
            dropin.include()
        assert "include" not in main.read_text()
    else:
        dropin.include()
        assert "include_if_exists" in main.read_text()
    assert "# theirs 0" in main.read_text()


def test_put_back_removes_or_writes(tmp_path: Path) -> None:
    main = tmp_path / "postgresql.conf"
    main.write_text("")
    main.chmod(0o640)
    dropin = DropIn(main)
    dropin.put_back(b"work_mem = 8MB\n")
    assert dropin.read() == b"work_mem = 8MB\n"
    assert dropin.path.stat().st_mode & 0o777 == 0o640
    dropin.put_back(None)
    assert dropin.read() is None
