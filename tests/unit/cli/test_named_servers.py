"""A server that does not answer: the hint names the flag, argument or key that named it, and no other."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.errors import ConnectError, UsageError, naming
from pgdyno.server.postgres import Postgres, refuse_secrets

NOWHERE = "host=/nowhere dbname=shop"
PLAN = f'version = 1\n[migration]\nname = "m"\nsource = "{NOWHERE}"\nfolder = "/srv/dumps"\n'


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["migrate", "rehearse", "PLAN"], "source in shop.toml"),
        (["migrate", "rehearse", "PLAN", "--source", "host=/neither dbname=shop"], "--source"),
        (["migrate", "validate", NOWHERE, NOWHERE], "SOURCE"),
        (["compare", "--data", NOWHERE, NOWHERE], "A"),
    ],
)
def test_a_hint_says_which_of_two_servers_is_meant(
    words: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    plan = tmp_path / "shop.toml"
    plan.write_text(PLAN)
    plan.chmod(0o600)
    command = importlib.import_module(f"pgdyno.cli.{words[0]}").command
    asked = [str(plan) if word == "PLAN" else word for word in words[1:]]
    done = CliRunner().invoke(command, asked, standalone_mode=False)
    assert isinstance(done.exception, ConnectError), done.exception
    assert f"the host and port of {named} (a socket" in (done.exception.hint or "")


def test_another_word_stands_in_hints_alone() -> None:
    with pytest.raises(UsageError) as caught, naming("TARGET"):
        raise UsageError("--target is the source", hint="Name another --target.")
    assert (caught.value.message, caught.value.hint) == ("--target is the source", "Name another TARGET.")
    with pytest.raises(UsageError) as caught, naming("TARGET"):
        raise UsageError("no hint")
    assert caught.value.hint is None


def test_a_string_that_no_one_can_read_is_hinted_by_its_own_name() -> None:
    with pytest.raises(UsageError) as caught:
        refuse_secrets("host", "source")
    assert (caught.value.hint or "").startswith("Write it as libpq does: source 'host=db1")
    with pytest.raises(UsageError) as caught:
        Postgres.reached("host", "SOURCE")
    assert "SOURCE 'host=db1" in (caught.value.hint or "")
