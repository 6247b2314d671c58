"""What the owner of a server reads before it is changed: what is set, how long it is away, how it is undone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pgdyno.cli.requests.experiment_request import Experiment, _check
from pgdyno.cli.requests.study import confirm_changes, outage_text, say_wrapped
from pgdyno.control.restart_budget import RestartBudget
from pgdyno.model.facts import Unknown
from pgdyno.model.study import StudyKind
from pgdyno.server.outage import Outage, measured

SERVER = SimpleNamespace(disposable=False, name="a server", remote=None)
LOAD = SimpleNamespace(description="a load")


def test_every_setting_is_named_with_the_outage_and_the_undo(capsys: pytest.CaptureFixture[str]) -> None:
    knobs = [f"setting_number_{number}" for number in range(12)]
    experiment = Experiment(StudyKind.AB, "x", {}, knobs, lambda facts: "up to 4 pairs of trials")
    check = _check(experiment, RestartBudget.parse("3"), ask=False)
    check(SERVER, None, LOAD, measured([2.0, 4.0]))  # type: ignore[arg-type]
    lines = capsys.readouterr().err.splitlines()
    text = " ".join(" ".join(lines).split())
    assert f"plan up to 4 pairs of trials; sets {', '.join(sorted(knobs))} load" in text
    assert "budget 3, about 3.0 s each (median of 2 restarts" in text
    assert "undo automatic at the end" in text
    assert max(map(len, lines)) <= 120


def test_a_label_that_is_longer_than_its_column_does_not_run_into_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    say_wrapped("written to", "a file")
    say_wrapped("plan", "to do it")
    assert capsys.readouterr().err.splitlines() == ["written to a file", "plan     to do it"]


def test_the_plan_is_no_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    confirm_changes(SERVER, LOAD, "a plan", "reloads only", ask=False)  # type: ignore[arg-type]
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 60
    assert "         pgdyno rollback --last" in lines, "a command is copied from one line"
    assert lines[2].startswith("load     a load, in databases of its own")


def test_an_outage_of_unknown_length_is_not_told_as_an_unknown_number_of_restarts() -> None:
    unknown = Outage(Unknown("too little was written"), "unknown", "too little was written")
    words = outage_text("a restart before every trial", unknown)
    assert words == "a restart before every trial; how long one takes is unknown: too little was written"
    assert outage_text("reloads only", None) == "reloads only"
