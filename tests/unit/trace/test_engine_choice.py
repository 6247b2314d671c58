"""Which engine sends a tape, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.trace.engine.plan import EndPoint, EnginePlan, Login
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engines import PYTHON, ToldShares, choose_engine

LOCAL = EnginePlan(-1, -1, EndPoint("/run/postgresql", 5432, "verify-full"), Login({"a": "b"}))


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    program = tmp_path / "pgdyno-engine"
    program.touch(0o755)
    return program


@pytest.mark.parametrize("end_point", [LOCAL.end_point, EndPoint("db", 1), EndPoint("db", 1, "allow")])
def test_the_compiled_one_where_it_can(compiled: Path, end_point: EndPoint) -> None:
    assert choose_engine(replace(LOCAL, end_point=end_point), compiled) == ((str(compiled),), "the compiled engine")


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (replace(LOCAL, end_point=EndPoint("db", 5432, "prefer")), "speaks no TLS, and sslmode is prefer"),
        (replace(LOCAL, login=Login({"a": "b", "c": "ü"})), "the password of 'c' is not all ASCII"),
    ],
)
def test_the_python_one_where_the_compiled_one_cannot(compiled: Path, plan: EnginePlan, why: str) -> None:
    program, reason = choose_engine(plan, compiled)
    assert program == PYTHON
    assert why in reason


def test_the_python_one_where_there_is_no_other(tmp_path: Path) -> None:
    program, reason = choose_engine(LOCAL, tmp_path / "pgdyno-engine")
    assert program == PYTHON
    assert "make engine" in reason


def test_pauses_of_shares_that_overlap_are_one_of_all() -> None:
    early = RunTally(at_us=30, pauses=[[2, 5, 1], [10, 20, 0], [27, -1, 2]])
    late = RunTally(at_us=29, pauses=[[3, 6, 2], [26, 28, 1]])
    told = ToldShares([early, late, RunTally()])
    assert told.whole().pauses == [[2, 6, 3], [10, 20, 0], [26, -1, 3]]
    assert (told.whole().is_paused, told.whole().schedule_us) == (True, 30 - 4 - 10 - 4)
    assert early.pauses[0] == [2, 5, 1]
