"""When an error of the load's script ends its study: at once where nothing else can come of another trial."""

from __future__ import annotations

import pytest

from pgdyno.errors import PgdynoError, ScriptError, WorkloadError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import Role, TrialSpec
from pgdyno.trial.breach import ScriptErrors

OWN = TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, 0)
SET = TrialSpec(Configuration.of({"work_mem": "1MB"}), Role.ARM, "B", 0, 0)
CERTAIN, LATE = ScriptError("no such table"), ScriptError("division by zero", is_certain=False)


@pytest.mark.parametrize(
    ("are_alike", "spec", "error", "ends"),
    [
        (False, OWN, LATE, True),
        (False, SET, LATE, False),
        (False, SET, CERTAIN, True),
        (True, SET, LATE, True),
        (True, OWN, WorkloadError("the load ended early"), False),
    ],
)
def test_the_first_error_ends_the_study_unless_its_settings_may_be_the_cause(
    are_alike: bool, spec: TrialSpec, error: PgdynoError, ends: bool
) -> None:
    assert ScriptErrors(are_alike=are_alike).ends_study(error, spec) is ends


def test_a_script_that_came_through_before_ends_it_with_the_second_failure_in_a_row() -> None:
    errors = ScriptErrors(are_alike=False)
    errors.note_complete()
    assert not errors.ends_study(LATE, OWN)
    errors.note_complete()
    assert not errors.ends_study(LATE, OWN)
    assert not errors.ends_study(LATE, SET)
    assert errors.ends_study(LATE, OWN)
