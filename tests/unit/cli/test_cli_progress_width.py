"""The live line at 80 columns: tps before guards, and no number and no name is ever cut."""

from __future__ import annotations

import inspect
import io
import re
from dataclasses import replace

import pytest

from pgdyno.cli.main import print_error
from pgdyno.cli.terminal.progress import Progress, fitted
from pgdyno.errors import UsageError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.guard import Indicator
from pgdyno.model.live import Colour
from pgdyno.model.trial import LatencySummary, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.optimizer import ask
from pgdyno.outside.words import PlainStream
from pgdyno.report.wording import STRATEGIES, purpose_text
from pgdyno.trial.pace import Outlook
from pgdyno.workloads.protocol import LoadReading

GUARDS = tuple(Indicator(name, Colour.GREEN, "fine") for name in ("memory", "disk", "oom"))
SPEC = TrialSpec(BASELINE, Role.SEARCH, "local", 3, 2)
LOAD = LoadReading(5.0, 12345.6, 1.23, 456.78, 99999, 0)
OUTLOOK = Outlook(Metric.SERVER_CPU, 12, 48, at_most=True, best=0.2512, left_s=750.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Sampler:
    def reading(self) -> dict[str, str]:
        return {"cpu": "87 %", "iowait": "3 %", "active": "4"}


def drawn(monkeypatch: pytest.MonkeyPatch, columns: int, indicators: tuple[Indicator, ...] = GUARDS) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    progress = Progress(stream=stream, clock=iter(range(1000)).__next__)
    progress.outlook(OUTLOOK)
    progress.trial_began(SPEC, 31, 31)
    progress.guards(indicators)
    progress.reading(12.3, 30.0, LOAD, Sampler())  # type: ignore[arg-type]  # only reading is called
    return stream.getvalue().replace("\r", "\n").replace("\x1b[2K", "").splitlines()[-1]


@pytest.mark.parametrize("columns", range(20, 140, 3))
def test_at_every_width_there_are_whole_words_only(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    whole = drawn(monkeypatch, 1000).split("  ")
    line = drawn(monkeypatch, columns)
    assert len(line) < columns
    parts = line.split("  ")
    assert parts[0] == "trial 12/48"
    assert all(part in whole for part in parts[1:])


def test_eighty_columns_have_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    line = drawn(monkeypatch, 80)
    for words in ("trial 12/48", "12 s of 30 s", "12,346 tps", "p99 456.78 ms"):
        assert words in line
    assert "at most 12:" in line, "the time left"
    wide = drawn(monkeypatch, 200)
    assert wide.index("tps") < wide.index("guards")
    assert "search, near the best so far" in wide
    assert "best server CPU/tx 0.251 ms" in wide
    red = drawn(monkeypatch, 80, (*GUARDS, Indicator("disk", Colour.RED, "full")))
    assert "RED disk" in red, "a guard that is red comes before what is only useful"


def test_the_line_of_a_trial_begins_with_the_metric_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    latency = LatencySummary(1.0, 2.0, 3.0, 4.0, 5.0, 1.5)
    outcome = Outcome(TrialState.COMPLETE, throughput=418.0, latency_ms=latency, server_cpu_ms_per_tx=0.2512)
    stream = Terminal()
    progress = Progress(stream=stream)
    progress.outlook(OUTLOOK)
    progress.trial_began(SPEC, 31, 31)
    progress.trial_ended(Trial(31, "s", SPEC, TrialState.COMPLETE, outcome))
    kept = stream.getvalue().rpartition("\x1b[2K")[2]
    assert all(len(line) < 80 for line in kept.splitlines())
    said = " ".join(kept.split())
    assert "trial 12 of at most 48 (run 31), search, near the best so far: " in said
    assert said.endswith("server CPU/tx 0.251 ms, the best so far, 418 tps, p99 3 ms")


def test_only_the_first_part_can_be_cut() -> None:
    parts = [(1, "trial 1"), (3, "shared_buffers"), (2, "99 tps")]
    assert fitted(parts, 80) == "trial 1  shared_buffers  99 tps"
    assert fitted(parts, 16) == "trial 1  99 tps"
    assert fitted(parts, 5) == "trial"


def test_every_strategy_of_the_search_has_plain_words() -> None:
    origins = set(re.findall(r'"(start|spread|local|model|anything)"', inspect.getsource(ask)))
    assert origins == set(STRATEGIES), "an origin that the optimiser gives has its words, and no other has"
    assert purpose_text("search", "spread") == "search, far from those tried"
    assert purpose_text("arm", "bench") == "run"
    assert purpose_text("arm", "after") == "run with the step"
    assert purpose_text("effect", "without jit") == "proof, without jit"
    assert purpose_text("confirm", "winner") == "proof, the winner"
    assert purpose_text("confirm", "all kept") == "proof, all kept"
    assert purpose_text("rival", "rival hand-made") == "rival hand-made"


@pytest.mark.parametrize(("role", "is_best"), [(Role.SEARCH, True), (Role.BASELINE, False)])
def test_only_a_search_has_a_best_so_far(role: Role, is_best: bool) -> None:
    spec = replace(SPEC, role=role)
    progress = Progress(stream=(stream := Terminal()))
    progress.outlook(OUTLOOK)
    progress.trial_began(spec, 31, 31)
    progress.trial_ended(
        Trial(31, "s", spec, TrialState.COMPLETE, Outcome(TrialState.COMPLETE, server_cpu_ms_per_tx=0.2512))
    )
    assert ("the best so far" in stream.getvalue().rpartition("\x1b[2K")[2]) is is_best


def test_what_disturbed_a_run_is_said_once() -> None:
    progress = Progress(stream=(stream := Terminal()))
    progress.trial_began(SPEC, 31, 31)
    outcome = Outcome(TrialState.DISTURBED, "foreign CPU was 79 % of a core", throughput=418.0, foreign_cpu_pct=79.0)
    progress.trial_ended(Trial(31, "s", SPEC, TrialState.DISTURBED, outcome))
    said = " ".join(stream.getvalue().rpartition("\x1b[2K")[2].split())
    assert said.count("foreign CPU") == 1
    assert said.endswith("foreign CPU was 79 % of a core; 418 tps")


def test_what_others_write_does_not_follow_the_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", PlainStream(terminal))  # as every verb has it
    progress = Progress()
    progress.phase("in its baseline, until a person has answered")
    print_error(UsageError("no", hint="Do not."))
    lines = [line.rpartition("\r\x1b[2K")[2] for line in terminal.getvalue().split("\n")]
    assert lines == ["error: no", "hint: Do not.", ""]
