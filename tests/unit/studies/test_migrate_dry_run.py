"""What the plan of a rehearsal says of the settings for its load."""

from __future__ import annotations

import pytest

from pgdyno.studies.migrate.dry_run import load_lines

BACK = "        put back in the phase run-time settings, or when the run ends before it, also by a kill"


@pytest.mark.parametrize(
    ("restarts", "said"),
    [(False, "        no restart"), (True, "        the target is restarted, there and back, where one needs it")],
)
def test_settings_for_the_load_are_put_back_before_the_rehearsal_is_over(restarts: bool, said: str) -> None:
    load = {"maintenance_work_mem": "1GB", "vm.dirty_background_bytes": "64MB"}
    assert [*load_lines(load, restarts=restarts)] == [
        "load:   maintenance_work_mem = 1GB on the target",
        "load:   vm.dirty_background_bytes = 64MB on the target's host",
        BACK,
        said,
    ]


def test_a_rehearsal_without_settings_says_nothing_of_them() -> None:
    assert [*load_lines({}, restarts=True)] == []
