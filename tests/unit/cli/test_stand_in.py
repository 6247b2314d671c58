"""Flags that stand for a server mean the same in `advise` and in `inspect`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli import advise, inspect
from pgdyno.errors import UsageError


@pytest.mark.parametrize("verb", [advise.command, inspect.command])
@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        (("--pg-settings", "--pg-version"), False),
        (("--pg-settings",), True),  # this list does not say which version it is of
        (("--pg-conf", "--pg-version"), False),
        (("--pg-conf",), True),
        (("--pg-version",), True),
        (("--pg-conf", "--pg-settings", "--pg-version"), True),
    ],
)
def test_both_verbs_take_and_refuse_the_same(verb, flags, refused, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 16384000 kB\n")
    files = {"--pg-settings": tmp_path / "settings.csv", "--pg-conf": tmp_path / "postgresql.conf"}
    files["--pg-settings"].write_text("name,setting,unit\nwork_mem,4096,kB\n")
    files["--pg-conf"].write_text("work_mem = 4MB\n")
    words = [word for flag in flags for word in (flag, str(files.get(flag, "15")))]
    done = CliRunner().invoke(verb, ["--root", str(tmp_path), *words, "--json"], standalone_mode=False)
    if refused and flags != ("--pg-settings",):
        assert isinstance(done.exception, UsageError), done.output
    else:
        assert done.exception is None, done.exception
        assert ("--pg-version names it" in done.output) is refused


@pytest.mark.parametrize("verb", [advise.command, inspect.command])
@pytest.mark.parametrize(
    ("told", "asked", "refused"),
    [
        ("150018", "15", False),
        ("150018", "15.18", False),
        ("90507", "9.5", False),
        ("150018", "13", True),
        ("150018", "15.4", True),
        ("90507", "9.6", True),
    ],
)
def test_a_version_that_the_list_contradicts_is_refused(verb, told: str, asked: str, refused: bool, tmp_path: Path):
    """It was passed over in silence, and the advice was that for the other version."""
    found = tmp_path / "settings.csv"
    found.write_text(f"name,setting,unit\nserver_version_num,{told},\nwork_mem,4096,kB\n")
    done = CliRunner().invoke(verb, ["--pg-settings", str(found), "--pg-version", asked], standalone_mode=False)
    assert isinstance(done.exception, UsageError) is refused, done.output
    assert not refused or told in (done.exception.detail or "")
