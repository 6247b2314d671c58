"""The course of a scalability study: each run once a repetition, repeats, and what ends it early; no server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.cli.scale import _EndingProgress
from pgdyno.model.trial import LoadPlan, Trial, TrialSpec, TrialState
from pgdyno.studies.scale.plan import ScalePlan
from pgdyno.studies.scale.run import run_scale
from pgdyno.studies.session import guarding
from pgdyno.studies.session.guarding import Halting, halting
from pgdyno.trial.company import Company
from pgdyno.trial.stopwatch import BudgetSpent
from scale_example import planned

NO_SAMPLER: Any = SimpleNamespace(reading=dict)


class Made:
    """A laboratory that measures nothing; `states` are those of the runs by number, complete where none is named."""

    company = Company()

    def __init__(self, plan: ScalePlan, recorded: int = 0, **states: TrialState) -> None:
        self.ran = list[tuple[TrialSpec, LoadPlan]]()
        self._recorded, self._states = recorded, states
        self.on_run: Callable[[int], None] = lambda _: None

    @property
    def is_replaying(self) -> bool:
        return len(self.ran) < self._recorded

    def expect(self, trials: int) -> None:
        self.expected = trials

    def run(self, spec: TrialSpec, *, plan: LoadPlan, workload: object) -> Trial:
        self.on_run(len(self.ran) + 1)
        self.ran.append((spec, plan))
        return Trial(len(self.ran), "s", spec, self._states.get(f"run{len(self.ran)}", TrialState.COMPLETE))


def run(made: Made, halt: Halting) -> str:
    def ready(*_: object, **__: object) -> None:
        pass

    study = SimpleNamespace(workload=None, plan=SimpleNamespace(reset="auto"))
    stand: Any = SimpleNamespace(laboratory=made, study=study, data=SimpleNamespace(make_ready=ready), facts=None)
    return run_scale({"": stand}, planned(), halt, lambda _: None)


def test_every_level_and_load_runs_once_a_repetition_at_its_own_rate_and_bound() -> None:
    made = Made(planned())
    assert run(made, halting(1e6, None)) == ""
    assert made.expected == len(made.ran) == 60
    assert {spec.block for spec, _ in made.ran} == set(range(1, 7))
    levels = {spec.factors["level"]: (plan.rate, dict(spec.configuration)) for spec, plan in made.ran
              if "level" in spec.factors}  # fmt: skip
    assert levels["60"] == (240, {"server.cpus": "0.3"})
    assert levels["150"] == (600, {"server.cpus": "0.75"})
    curve = {spec.factors["clients"]: (plan.rate, plan.clients) for spec, plan in made.ran if "clients" in spec.factors}
    assert curve["32"] == (None, 32)


def test_a_disturbed_run_is_repeated_at_its_place() -> None:
    made = Made(planned(), run3=TrialState.DISTURBED)
    run(made, halting(1e6, None))
    assert len(made.ran) == 61
    assert made.ran[3][0].repeats == 3
    assert made.ran[3][0].arm == made.ran[2][0].arm


def test_time_that_is_over_and_a_stop_file_end_it_with_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(guarding.time, "monotonic", lambda: now[0])
    made = Made(planned())
    made.on_run = lambda _: now.__setitem__(0, now[0] + 25)
    assert run(made, halting(100, None)) == "--max-seconds 100"
    assert len(made.ran) == 4, "a run that would not be over in time is not begun"
    stop = tmp_path / "stop"
    made = Made(planned())
    made.on_run = lambda number: stop.touch() if number == 7 else None
    assert run(made, halting(1e6, stop)) == "the stop file"
    assert len(made.ran) == 7


def test_it_ends_within_a_run_too(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    halt = halting(1e6, stop)
    progress = _EndingProgress(halt)
    progress.reading(1, 2, None, NO_SAMPLER)
    stop.touch()
    with pytest.raises(BudgetSpent, match="the stop file"):
        progress.reading(1, 2, None, NO_SAMPLER)
    made = Made(planned())

    def stopped(number: int) -> None:
        if number == 5:
            stop.touch()
            progress.reading(1, 2, None, NO_SAMPLER)

    stop.unlink()
    made.on_run = stopped
    assert run(made, halt) == "the stop file"
    assert len(made.ran) == 4


def test_runs_from_before_a_kill_are_given_back_whatever_the_clock_says() -> None:
    made = Made(planned(), recorded=20)
    assert run(made, halting(0, None)) == "--max-seconds 0"
    assert len(made.ran) == 20
