"""Who else uses the CPUs: named, with the server, pgdyno and the kernel left out."""

from __future__ import annotations

import os

import pytest

from pgdyno.linux.processes import TICKS_PER_S, ProcessStat
from pgdyno.probes.host.neighbours import ProcessSnapshot, busiest, in_words

SERVER, BACKEND, STRANGER, KERNEL, OWN, YOUNG = 100, 101, 200, 300, 400, 500


def stat(pid: int, parent: int, seconds: float, *, started: int = 1, command: str = "") -> ProcessStat:
    return ProcessStat(pid, command or f"p{pid}", "R", parent, int(seconds * TICKS_PER_S), 0, started)


def looked(at_s: float, *stats: ProcessStat) -> ProcessSnapshot:
    return ProcessSnapshot(at_s, {one.pid: one for one in stats})


def test_strangers_are_named_and_nobody_of_ours() -> None:
    def all_at(seconds: float) -> list[ProcessStat]:
        mine = stat(OWN, os.getpid(), seconds)
        return [
            stat(SERVER, 1, 0), stat(BACKEND, SERVER, seconds), stat(STRANGER, 1, 5 + seconds, command="cc\x1b[2J"),
            stat(KERNEL, 2, seconds), mine, stat(os.getpid(), 1, seconds),
        ]  # fmt: skip

    found = busiest(looked(10, *all_at(0)), looked(12, *all_at(1)), SERVER)
    assert [(one.pid, one.cpu_pct) for one in found] == [(STRANGER, pytest.approx(50))]
    assert in_words(found) == f"cc?[2J (process {STRANGER}) 50 %"
    assert BACKEND in [one.pid for one in busiest(looked(10, *all_at(0)), looked(12, *all_at(1)), None)]


def test_a_number_that_was_given_again_is_another_process() -> None:
    before, after = looked(0, stat(YOUNG, 1, 90, started=1)), looked(2, stat(YOUNG, 1, 1, started=9))
    (found,) = busiest(before, after, None)
    assert found.cpu_pct == pytest.approx(50)


def test_what_hardly_runs_and_the_same_moment_name_nobody() -> None:
    idle = looked(0, stat(STRANGER, 1, 1)), looked(100, stat(STRANGER, 1, 2))
    assert busiest(*idle, None) == ()
    assert busiest(idle[0], idle[0], None) == ()
    assert in_words(()) == ""
