"""What a report says of the load: who made it, what was asked for, and with which parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.study import Study
from pgdyno.report.provenance import environment, workload
from study_example import make_study

CLASS = "class exceeds: 702,955 rows, about 320 MB with the index, 125 % of 256 MB (the server's memory cgroup)"


def asked(driver: str, **options: object) -> Study:
    study = make_study()
    parameters = {"tab_rows": 702_955, "class": "", "driver": driver}
    return replace(study, workload=replace(study.workload, parameters=parameters), options=options)


def test_the_loop_of_sessions_is_not_called_pgbench() -> None:
    said = {driver: dict(environment(asked(driver), ()).rows)["driver"] for driver in ("pgbench", "loop")}
    assert said["pgbench"].startswith("pgbench, ")
    assert said["loop"].startswith("pgdyno's own loop of sessions, ")


@pytest.mark.requirement("R-YBI-04")
def test_the_class_of_a_working_set_stands_beside_the_rows_that_it_came_to() -> None:
    rows = dict(workload(asked("loop", working_set=CLASS), ()).rows)
    assert rows["working set"] == CLASS
    assert rows["parameters"] == "tab_rows 702955, driver loop", "a parameter that says nothing is left out"
    assert "working set" not in dict(workload(asked("loop"), ()).rows)
