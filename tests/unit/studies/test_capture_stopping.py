"""`capture stop` waits for the copy that --output asked for, says how far it is, and after Ctrl-C lets it go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capture_example import RUNNING
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.studies.capture.finish import kept_and_copied
from pgdyno.studies.capture.register import CaptureFolder, CaptureProgress, CaptureState, find_capture
from pgdyno.studies.capture.stopping import STILL_S, STOP_S, stop_capture
from pgdyno.trace.capture_record import CapturedLog, CaptureRecord, SourceEnd

ENDED = SourceEnd("2026-11-26T10:00:00+00:00", "stopped")
GONE = ProcessIdentity(2**22, 1, "another boot")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    return tmp_path


class Terminal:
    """The one in which the capture runs: does one thing more each time that somebody sleeps; a turn is a second."""

    def __init__(self, home: Path, *steps: Callable[[], None]) -> None:
        self.folder = CaptureFolder.make("1-a", home / "out")
        self.now, self._steps = 0.0, iter(steps)
        self.progress = CaptureProgress(self.folder.folder, ProcessIdentity.own(), time.time())
        self.folder.tell(self.progress)
        self.folder.keep(replace(RUNNING, id="1-a"))
        self.heard = list[str]()

    def then(self, *steps: Callable[[], None]) -> None:
        self._steps = iter(steps)

    def ends(self, to_copy: int | None = None, copied: int = 0) -> None:
        self.folder.tell(replace(self.progress, to_copy=to_copy, copied=copied))
        self.folder.keep(replace(RUNNING, id="1-a", end=ENDED))

    def sleep(self, _: float) -> None:
        self.now += 1.0
        next(self._steps, lambda: None)()

    def stop(self) -> CaptureState:
        return stop_capture(find_capture(None), self.heard.append, clock=lambda: self.now, sleep=self.sleep).state


def test_stop_comes_back_when_the_log_is_copied_and_not_when_the_logging_is_restored(home: Path) -> None:
    terminal = Terminal(home)
    terminal.then(
        lambda: None,
        lambda: terminal.ends(to_copy=3 << 20),
        *[lambda done=done: terminal.ends(to_copy=3 << 20, copied=done << 19) for done in range(6)],  # type: ignore[misc]  # a default as a closure
        terminal.ends,
    )
    assert terminal.stop() is CaptureState.ENDED
    assert terminal.now == 9
    assert terminal.folder.is_stopped
    assert [text.rpartition(": ")[2] for text in terminal.heard] == ["0 B of 3 MB", "2 MB of 3 MB"]


def test_ctrl_c_leaves_the_copy_going_on_and_says_so(home: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    terminal = Terminal(home)
    terminal.then(lambda: terminal.ends(to_copy=9), interrupt)
    with pytest.raises(KeyboardInterrupt, match="goes on: pgdyno capture status shows"):
        terminal.stop()
    assert find_capture(None).state is CaptureState.COPYING


def test_what_does_not_end_and_a_copy_that_stands_still_are_not_waited_for_for_ever(home: Path) -> None:
    terminal = Terminal(home)
    with pytest.raises(UsageError, match="has not ended within"):
        terminal.stop()
    assert terminal.now == STOP_S
    terminal.ends(to_copy=9, copied=4)
    with pytest.raises(EnvironmentUnsuitable, match="stands still"):
        terminal.stop()
    assert terminal.now == STOP_S + STILL_S + 1


def test_a_copy_whose_process_was_killed_has_ended(home: Path) -> None:
    terminal = Terminal(home)
    terminal.progress = replace(terminal.progress, process=GONE)
    terminal.ends(to_copy=9, copied=4)
    known = find_capture("1-a")
    assert (known.state, known.asks_copy) == (CaptureState.ENDED, True)


@pytest.mark.parametrize("harm", [None, EnvironmentUnsuitable("the log is gone"), KeyboardInterrupt()])
def test_others_see_a_copy_from_the_end_of_the_capture_on_and_a_cut_one_leaves_nothing_like_a_log(
    home: Path, harm: BaseException | None
) -> None:
    terminal, seen = Terminal(home), list[tuple[CaptureState, int | None, int]]()

    def blocks(_: str, end: int) -> Iterator[bytes]:
        known = find_capture(None)
        seen.append((known.state, known.progress.to_copy, known.progress.copied))
        yield b"x" * (end - 1)
        if harm is not None:
            raise harm
        yield b"y"

    plan: Any = SimpleNamespace(folder=SimpleNamespace(blocks=blocks))
    logs = (CapturedLog("/log/1.csv", "csvlog", 0, 5), CapturedLog("/log/2.csv", "csvlog", 0, 3))
    record: CaptureRecord = replace(RUNNING, id="1-a", logs=logs, end=ENDED)
    ticks = iter(range(0, 1000, 2))
    try:
        kept_and_copied(plan, terminal.folder, record, terminal.heard.append, lambda: float(next(ticks)))
    except KeyboardInterrupt:
        assert isinstance(harm, KeyboardInterrupt)
    known = find_capture("1-a")
    assert known.state is CaptureState.ENDED
    there = sorted(path.name for path in terminal.folder.folder.iterdir())
    if harm is None:
        assert seen == [(CaptureState.COPYING, 8, 0), (CaptureState.COPYING, 8, 5)]
        assert [log.copy for log in known.record.logs] == ["1.csv", "2.csv"]
        assert (terminal.folder.folder / "1.csv").read_bytes() == b"xxxxy"
    else:
        assert seen == [(CaptureState.COPYING, 8, 0)]
        assert (there, [log.copy for log in known.record.logs]) == (["capture.json"], [None, None])
