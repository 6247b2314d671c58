"""The password file as libpq reads it, and what a sudoers file says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.target.remote.arrival import INSTALLED
from pgdyno.target.remote.password import find_password, look_up
from pgdyno.target.remote.sudoers import Grant, sudoers_text

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
