"""The manual page is made from the declarations: every verb and flag is in it, and man finds no fault."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import pytest

import man_page
from pgdyno.cli.main import VERBS, command

PAGE = Path(__file__).parents[3] / "docs" / "man" / "pgdyno.1"
TEXT = PAGE.read_text("utf-8")


@pytest.mark.parametrize("verb", VERBS)
def test_it_has_every_flag_of_a_verb(verb: str) -> None:
    found = command.get_command(click.Context(command), verb)
    assert found is not None
    begin = TEXT.index(f"\n.SS pgdyno {verb} ")
    ends = [at for other in VERBS if other != verb and (at := TEXT.find(f"\n.SS pgdyno {other} ", begin)) > 0]
    part = TEXT[begin : min(ends, default=TEXT.index("\n.SH EXIT STATUS"))].replace("\\-", "-")
    groups = [found, *(found.commands.values() if isinstance(found, click.Group) else ())]
    flags = [param.opts[0] for one in groups for param in one.params if isinstance(param, click.Option)]
    assert [flag for flag in flags if flag not in part] == []


def test_man_can_print_it() -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    argv = [groff, "-man", "-ww", "-z", "-Tutf8", str(PAGE)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert said.stderr == ""


def test_a_verb_that_says_nothing_of_itself_has_its_flags_alone() -> None:
    silent = click.Command("silent", params=[click.Option(["--loud"], help="Not so.")])
    told = "".join(man_page._verb("pgdyno silent", silent, click.Context(silent, info_name="silent")))
    assert told.startswith(".SS pgdyno silent [OPTIONS]\n.TP\n")
    assert "Not so." in told
