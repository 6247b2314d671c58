"""Which engine sends a tape, and why."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.trace import engines
from pgdyno.trace.compiled_builder import unsuitable
from pgdyno.trace.engine.plan import EndPoint, EnginePlan, Login
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engines import PYTHON, ToldShares, choose_engine, doubt_about_compiled, run_engines

LOCAL = EnginePlan(-1, -1, EndPoint("/run/postgresql", 5432, "verify-full"), Login({"a": "b"}))


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    return says(tmp_path, engines.COMPILED_VERSION)


def says(folder: Path, version: str) -> Path:
    """Return an engine that answers this when it is asked for its version."""
    program = folder / "pgdyno-engine"
    program.write_text(f'#!/bin/sh\n[ "$1" = version ] && printf %s "{version}"\n')
    program.chmod(0o755)
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


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("", "it does not say its version"),
        ("0", f"its version is 0, not {engines.COMPILED_VERSION}"),
        ("1" * 100, f"its version is {'1' * 20}, not {engines.COMPILED_VERSION}"),
    ],
)
def test_the_python_one_where_the_compiled_one_was_built_for_another_pgdyno(
    tmp_path: Path, version: str, known: str
) -> None:
    """It would be told what it does not know, or tell less than is read."""
    old = says(tmp_path, version)
    why = f"the compiled one was built for another pgdyno ({known}), `make engine` builds it anew"
    assert choose_engine(LOCAL, old) == (PYTHON, f"the Python engine: {why}")
    assert unsuitable([], {}, None, old) == why
    with pytest.raises(EnvironmentUnsuitable) as told:
        choose_engine(LOCAL, old, "compiled")
    assert told.value.detail == f"the Python engine: {why}"


def test_one_that_this_machine_cannot_run_says_no_version(tmp_path: Path) -> None:
    program = tmp_path / "pgdyno-engine"
    program.write_bytes(b"\x7fELF of another processor")
    program.chmod(0o755)
    assert "it does not say its version" in choose_engine(LOCAL, program)[1]


def test_the_engine_of_this_commit_is_taken(compiled_engine: Path) -> None:
    assert doubt_about_compiled(compiled_engine) is None


def test_pauses_of_shares_that_overlap_are_one_of_all() -> None:
    early = RunTally(at_us=30, pauses=[[2, 5, 1], [10, 20, 0], [27, -1, 2]])
    late = RunTally(at_us=29, pauses=[[3, 6, 2], [26, 28, 1]])
    told = ToldShares([early, late, RunTally()])
    assert told.whole().pauses == [[2, 6, 3], [10, 20, 0], [26, -1, 3]]
    assert (told.whole().is_paused, told.whole().schedule_us) == (True, 30 - 4 - 10 - 4)
    assert early.pauses[0] == [2, 5, 1]


def test_the_moment_of_all_is_before_the_begin_where_that_of_each_is() -> None:
    """Who asks at the first telling when the run begins is told the truth."""
    assert ToldShares([RunTally(at_us=-300_000), RunTally(at_us=-290_000)]).whole().at_us == -290_000
    assert ToldShares([RunTally(at_us=-300_000), RunTally()]).whole().at_us == -300_000
    assert ToldShares([RunTally(at_us=5), RunTally(at_us=-1)]).whole().at_us == 5
    assert ToldShares([RunTally(), RunTally()]).whole().at_us == 0


def test_an_engine_that_cannot_begin_is_told_with_its_own_reason(tmp_path: Path) -> None:
    for name in ("tape", "records"):
        (tmp_path / name).touch()
    dies = [sys.executable, "-c", "import sys; sys.stdin.close(); sys.exit('libc is missing')"]
    plan = replace(LOCAL, login=Login({"a": "b" * 1_000_000}))  # more than a pipe holds
    with pytest.raises(EnvironmentUnsuitable, match="ended with exit code 1") as told:
        run_engines(plan, tmp_path / "tape", [tmp_path / "records"], program=dies)
    assert told.value.detail == "libc is missing"


def test_an_engine_that_says_nothing_is_watched_and_killed_where_it_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    deaf = (
        "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f" pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    )
    for name in ("tape", "records"):
        (tmp_path / name).touch()
    monkeypatch.setattr(engines, "END_TIMEOUT_S", 0.1)
    monkeypatch.setattr(engines, "_LOOK_S", 0.05)
    with pytest.raises(EnvironmentUnsuitable, match="ended with exit code -9"):
        run_engines(
            LOCAL,
            tmp_path / "tape",
            [tmp_path / "records"],
            program=[sys.executable, "-c", deaf],
            watch=lambda _: ready.exists(),
        )


def test_an_engine_that_is_ended_while_it_starts_has_sent_nothing_and_is_no_failure(tmp_path: Path) -> None:
    for name in ("tape", "records"):
        (tmp_path / name).touch()
    starts = [sys.executable, "-c", "import time; time.sleep(600)"]
    tally = run_engines(LOCAL, tmp_path / "tape", [tmp_path / "records"], program=starts, watch=lambda _: True)
    assert (tally.ended, tally.done, tally.at_us) == ("SIGTERM", 0, 0)
