"""When an error of the load's script ends its study: at once where nothing else can come of another trial."""

from __future__ import annotations

import pytest

from pgdyno.errors import PgdynoError, ScriptError, WorkloadError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.study import StudyKind
from pgdyno.model.trial import Role, TrialSpec
from pgdyno.trial.script_errors import ScriptErrors

OWN = TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, 0)
SET = TrialSpec(Configuration.of({"work_mem": "1MB"}), Role.ARM, "B", 0, 0)
CERTAIN, LATE = ScriptError("no such table"), ScriptError("division by zero", is_certain=False)


@pytest.mark.parametrize(
    ("kind", "spec", "error", "ends"),
    [
        (StudyKind.AB, OWN, LATE, True),
        (StudyKind.AB, SET, LATE, False),
        (StudyKind.AB, SET, CERTAIN, True),
        (StudyKind.BENCH, SET, LATE, True),
        (StudyKind.BENCH, OWN, WorkloadError("the load ended early"), False),
    ],
)
def test_the_first_error_ends_the_study_unless_its_settings_may_be_the_cause(
    kind: StudyKind, spec: TrialSpec, error: PgdynoError, ends: bool
) -> None:
    assert ScriptErrors(kind).ends_study(error, spec) is ends


def test_a_script_that_came_through_before_ends_it_with_the_second_failure_in_a_row() -> None:
    errors = ScriptErrors(StudyKind.TUNE)
    errors.note_complete()
    assert not errors.ends_study(LATE, OWN)
    errors.note_complete()
    assert not errors.ends_study(LATE, OWN)
    assert not errors.ends_study(LATE, SET)
    assert errors.ends_study(LATE, OWN)
