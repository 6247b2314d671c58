"""The child that sends a tape for a workload: when the run began, and how fast it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.replay import driver
from pgdyno.replay.driver import Telling
from pgdyno.replay.records_reader import BEGIN
from pgdyno.trace.engine.tally import RunTally


def test_the_begin_is_that_of_the_engine_and_not_that_of_its_first_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1_700_000_000.0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver.time, "time", lambda: now[0])
    telling = Telling()
    assert not telling.look(RunTally())
    assert not (tmp_path / BEGIN).exists(), "no engine has told anything"
    now[0] += 5.0
    telling.look(RunTally(at_us=-300_000))
    assert (tmp_path / BEGIN).read_text() == "1700000005300000\n"
    now[0] += 2.0
    telling.look(RunTally(at_us=1_700_000, done=40))
    assert "1700000007.000 s, 20.0 tps" in capsys.readouterr().err
    telling.is_over = True
    assert telling.look(RunTally())
