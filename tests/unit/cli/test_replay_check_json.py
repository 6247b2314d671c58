"""`replay --check --json` and `--dry-run --json` print one JSON object, as every verb does that has the flag."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgdyno.cli import replay
from pgdyno.errors import ExitCode
from pgdyno.replay.captured import Asked
from pgdyno.studies.replay import check
from pgdyno.studies.replay.check import Checked, WillFail
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.trace.schema import Lost


@pytest.mark.parametrize("failing", [(), (WillFail("app", "shop", "SELECT x", "42703", "no x", 3),)])
def test_what_a_check_finds_is_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: tuple[WillFail, ...]
) -> None:
    made = (WillFail("app", "shop", "SELECT a FROM t", "42P01", 'relation "t" does not exist', 2),)
    monkeypatch.setattr(check, "check", lambda *_: Checked(7, 1, failing, made))
    options = ReplayOptions(Path("t.parquet"), Path("x"))
    code = replay._check(SimpleNamespace(plan=None), options, as_json=True)  # type: ignore[arg-type]  # it is passed on
    told = json.loads(capsys.readouterr().out)
    assert (told["prepared"], told["unknown"], len(told["failing"])) == (7, 1, len(failing))
    assert code == (ExitCode.FINDINGS if failing else ExitCode.OK)
    if failing:
        assert told["failing"][0]["sqlstate"] == "42703"


def test_a_plan_is_one_object() -> None:
    meta = SimpleNamespace(statements=7, sessions=2, refused={"COPY": 1}, lost=Lost(gaps=3), holes=())
    ready = SimpleNamespace(
        target=SimpleNamespace(name="copy"), meta=meta, asked=Asked(("app",), ("shop",), 2, 5_000_000), seconds=2.5,
        engine="the Python engine", unknown=("app", "dba"), stood_for=("app",),
    )  # fmt: skip
    told = replay._plan_json(ready, ReplayOptions(Path("t.parquet"), Path("x")))  # type: ignore[arg-type]  # what is told
    assert json.loads(json.dumps(told)) == told
    assert (told["target"], told["statements"], told["seconds"], told["output"]) == ("copy", 7, 2.5, "x")
    assert (told["roles_without_password"], told["roles_by_stand_in"]) == (["app", "dba"], ["app"])
    assert told["missing"] == ["3 lines missing within sessions"]
