"""Several load generators as one running load: what ends it when some of them could not run."""

from __future__ import annotations

from typing import cast

import pytest

from pgdyno.errors import ScriptError, WorkloadError
from pgdyno.fleet.group import GroupLoad
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.protocol import RunningLoad

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
    group = GroupLoad([cast("RunningLoad", Ended(one)) for one in errors], PLAN)
    with pytest.raises(ScriptError, match="no such table"):
        group.finish()
