"""`pgdyno guards` on a sandbox: what it lists, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pytest

from pgdyno.cli.main import command
from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.guard_table import GUARDS

pytestmark = pytest.mark.pg


def call(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(command, ["guards", *words], standalone_mode=False)


@pytest.mark.usefixtures("pgdyno_home")
def test_every_guard_is_listed_with_its_reading_and_a_red_one_is_a_finding() -> None:
    done = call("--json", "--guard", "memory=100%", "--guard", "errors=off")
    assert done.return_value == ExitCode.FINDINGS, done.exception
    facts = {fact["name"]: fact for fact in json.loads(done.stdout)["guards"]}
    assert list(facts) == list(GUARDS)
    assert (facts["memory"]["state"], facts["memory"]["limit"]) == ("red", "100 %")
    assert (facts["errors"]["state"], facts["errors"]["limit"]) == ("off", "off")
    assert facts["connections"]["state"] == "green"
    assert all(fact["reads"] and fact["reason"] and fact["default"] for fact in facts.values())
    default = call("--json")  # which of these are red is this machine's to say
    is_red = any(fact["state"] == "red" for fact in json.loads(default.stdout)["guards"])
    assert default.return_value == (ExitCode.FINDINGS if is_red else ExitCode.OK), default.exception
    plain = call()
    assert "limit 5 %, between 1 GB and 10 GB; a breach ends the study" in plain.stdout
    assert "\x1b" not in plain.stdout


def test_a_wrong_limit_is_told_before_a_server_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    done = call("--guard", "disk=off")
    assert isinstance(done.exception, UsageError)
    assert not list(tmp_path.iterdir())
