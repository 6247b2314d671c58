"""Several load generators as one running load: what ends it when some of them could not run."""

from __future__ import annotations

from typing import cast

import pytest

from pgdyno.errors import ScriptError, WorkloadError
from pgdyno.fleet import group
from pgdyno.fleet.group import GroupLoad
from pgdyno.fleet.merge import Part
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.protocol import LoadReading, RunningLoad

PLAN = LoadPlan(clients=1, jobs=1, warmup_s=0.0, measure_s=10.0, instances=2)
SCRIPT, OTHER = ScriptError("no such table"), WorkloadError("the load ended without a single transaction")


class Ended:
    """A generator that has ended with this error."""

    def __init__(self, error: WorkloadError) -> None:
        self.error = error

    def finish(self) -> None:
        raise self.error

    def terminate(self) -> None:
        pass


@pytest.mark.parametrize("errors", [(OTHER, SCRIPT), (SCRIPT, OTHER)])
def test_an_error_of_the_script_is_told_before_what_became_of_the_others(errors: tuple[WorkloadError, ...]) -> None:
    load = GroupLoad([cast("RunningLoad", Ended(one)) for one in errors], PLAN)
    with pytest.raises(ScriptError, match="no such table"):
        load.finish()


class Reading:
    """A generator that runs, or ran, and has told this."""

    def __init__(self, t: float, *, runs: bool = True) -> None:
        self.t, self.runs = t, runs

    def poll(self) -> bool:
        return not self.runs

    def live(self) -> LoadReading:
        return LoadReading(t=self.t, tps=self.t, latency_ms=1.0, p99_ms=None, transactions=int(self.t), failed=0)


def test_what_all_have_told_is_of_the_latest_of_those_that_run() -> None:
    load = GroupLoad([cast("RunningLoad", one) for one in (Reading(3.0), Reading(5.0), Reading(9.0, runs=False))], PLAN)
    found = load.live()
    assert found is not None
    assert (found.t, found.tps, found.transactions) == (5.0, 8.0, 17)


@pytest.mark.parametrize(("detail", "told"), [("line 3", "line 3"), (None, "it was killed")])
def test_of_a_generator_that_failed_beside_others_its_detail_is_told_or_else_its_message(
    monkeypatch: pytest.MonkeyPatch, detail: str | None, told: str
) -> None:
    class Whole:
        def finish(self) -> None:
            pass

        def terminate(self) -> None:
            pass

    def parts_alone(parts: list[Part], *_: object, **__: object) -> list[Part]:
        return parts

    monkeypatch.setattr(group, "merge", parts_alone)
    loads = [cast("RunningLoad", one) for one in (Whole(), Ended(WorkloadError("it was killed", detail=detail)))]
    whole, failed = cast("list[Part]", GroupLoad(loads, PLAN).finish())
    assert (whole.reason, failed.reason) == (None, told)
