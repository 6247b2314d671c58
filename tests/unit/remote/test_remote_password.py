"""The password file as libpq reads it, and what a sudoers file says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.kernel import kernel_knobs
from pgdyno.kernel.kernel_knobs import Located
from pgdyno.linux.block_devices import SWAP_FOLDER, KernelPlaces
from pgdyno.model.linux import LINUX_KNOBS
from pgdyno.remote.deploy import INSTALLED
from pgdyno.remote.dispatcher import Dispatcher
from pgdyno.remote.password import find_password, look_up
from pgdyno.remote.sudoers import ROOT_WRITES, Grant, sudoers_text

TEXT = r"""
# db1:5432:*:dba:commented
db1:5432:app:dba:first
db1:*:*:dba:second
*:5433:*:odd\:name:with\:colon\\end
localhost:5432:*:*:here
"""
FIELD = st.text(st.characters(blacklist_characters="\n\r\0", blacklist_categories=["Cs", "Zl", "Zp", "Cc"]), min_size=1)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (("db1", "5432", "app", "dba"), "first"),
        (("db1", "5432", "other", "dba"), "second"),
        (("db1", "6000", "app", "dba"), "second"),
        (("db1", "5432", "app", "other"), None),
        (("x", "5433", "app", "odd:name"), "with:colon\\end"),
        (("localhost", "5432", "app", "who"), "here"),
    ],
)
def test_the_first_line_that_fits_counts(wanted: tuple[str, ...], found: str | None) -> None:
    assert look_up(TEXT, wanted) == found


@given(fields=st.lists(FIELD.filter(lambda text: text.strip() and text != "*"), min_size=5, max_size=5))
def test_what_is_escaped_is_found_again(fields: list[str]) -> None:
    line = ":".join(field.replace("\\", "\\\\").replace(":", "\\:") for field in fields)
    if not line.startswith("#"):
        assert look_up(line, fields[:4]) == fields[4]


@pytest.mark.parametrize("text", ["", "db1", "db1:5432:app:dba", ":::"])
def test_short_lines_give_nothing(text: str) -> None:
    assert look_up(text, ("db1", "5432", "app", "dba")) is None


def test_where_a_password_is_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.write_text("db1:5432:app:dba:of the file\n")
    file.chmod(0o600)
    given_ = {"user": "dba", "dbname": "app"}
    environment = {"PGPASSFILE": str(file)}
    assert find_password({**given_, "password": "given"}, ["db1"], environment) == "given"
    assert find_password(given_, ["db1"], {**environment, "PGPASSWORD": "of the environment"}) == "of the environment"
    assert find_password(given_, ["other", "db1"], environment) == "of the file"
    assert find_password(given_, ["other"], environment) is None
    file.chmod(0o644)
    assert find_password(given_, ["db1"], environment) is None
    assert find_password(given_, ["db1"], {"PGPASSFILE": str(tmp_path / "none")}) is None


@pytest.mark.parametrize("user", ["postgres", "root"])
def test_a_sudoers_file_allows_one_program_without_arguments(user: str) -> None:
    text = sudoers_text(Grant("dba", user, "ab" * 32, "/home/dba/.cache/pgdyno/agent/x.pyz"))
    (rule,) = (line for line in text.splitlines() if line and not line.startswith("#"))
    assert rule == f'dba ALL=({user}) NOPASSWD: sha256:{"ab" * 32} {INSTALLED} ""'
    assert ("treat dba as root" in text) == (user == "root")


def test_a_sudoers_file_names_every_place_that_a_root_agent_writes() -> None:
    text = sudoers_text(Grant("dba", "root", "ab" * 32, "/x.pyz"))
    assert all(place in text for place in ROOT_WRITES)
    places = KernelPlaces(("sda",), ("sda",), swap_file=str(SWAP_FOLDER / "swap"))
    found = [kernel_knobs.locate(name, places) for name in LINUX_KNOBS]
    files = [file for one in found if isinstance(one, Located) for file in (*one.files, *one.beside)]
    assert str(SWAP_FOLDER / "swap") in files
    assert "/sys/block/sda/queue/read_ahead_kb" in files
    assert [file for file in files if not any(Path(file).is_relative_to(place) for place in ROOT_WRITES)] == []


def test_a_sudoers_file_says_that_a_root_agent_takes_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "1000")
    text = " ".join(sudoers_text(Grant("dba", "root", "ab" * 32, "/x.pyz")).replace("\n#", "").split())
    assert "takes no command to run from dba" in text
    with pytest.raises(UsageError):
        Dispatcher().calls["open"]({"conninfo": "", "restart_command": ["true"]})
