"""`pgdyno live --demo` in small: the load runs, its planted answer is found, and the sandbox is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.terminal.progress import Progress
from pgdyno.model.verdict import Word
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.live.demo import SANDBOX, live_demo
from pgdyno.workloads.shop_load import FACTOR, KNOB, ROLE

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.timeout(900)]  # a busy machine repeats studies


def test_the_planted_answer_is_found(pgdyno_home: Path) -> None:
    for period_s in (2.4, 5.0, 10.0):  # a busy machine makes short neighbouring periods unequal, and no long ones
        said: list[str] = []
        with open_store(None) as store:
            told = live_demo(
                store, Progress(quiet=True), keep=True, seed=1,
                approve=lambda _plan: True, announce=said.append, reference_s=8, period_s=period_s,
            )  # fmt: skip
        if told.switch is None or told.switch.verdict is not None:
            break
        assert "unequal work" in told.switch.stopped, told.switch
    assert told.switch is not None
    assert told.switch.verdict is not None, said
    assert told.switch.verdict.word in (Word.BETTER, Word.NOT_RESOLVED), said  # as busy as the machine is
    assert told.switch.verdict.interval.lo < FACTOR + 0.1
    assert any("planted" in line for line in said)
    is_told = said[-1].startswith("planted were 70 % of the time, and the interval")
    assert is_told is told.switch.verdict.interval.is_closed
    sandbox = Sandbox.open_or_create(SANDBOX)
    try:
        sandbox.start()
        postgres = sandbox.target().postgres
        assert postgres.fetch(f"SHOW {KNOB}")[0][KNOB] == "4MB"
        assert postgres.fetch("SELECT FROM pg_catalog.pg_roles WHERE rolname = %(role)s", {"role": ROLE}) == []
    finally:
        sandbox.destroy()
