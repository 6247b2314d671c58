"""The workloads of a matrix and their parameters: cells, sizes of their own, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.errors import UsageError
from pgdyno.studies.matrix.dry_run import dry_run
from pgdyno.studies.matrix.file import parse_matrix, plan_from_json
from pgdyno.studies.matrix.manifests import Cluster, PodServer, write_manifests
from pgdyno.studies.matrix.plan import MatrixPlan, Value, check, check_workloads, to_json
from pgdyno.workloads.pgbench.command import Pgbench


def no_files(name: str) -> dict[str, str]:
    raise AssertionError(name)


@pytest.mark.parametrize("mode", ["ybio", "tprocc"])
def test_a_workload_with_a_size_of_its_own_has_no_scale(mode: str) -> None:
    plan = check(MatrixPlan(modes=("tpcb-like", mode), scales=(10, 20), clients=(2,)))
    assert [(cell.mode, cell.scale) for cell in plan.cells()] == [("tpcb-like", 10), ("tpcb-like", 20), (mode, 0)]
    assert [plan.workload(cell) for cell in plan.cells()] == [{"scale": 10}, {"scale": 20}, {}]
    assert plan_from_json(json.loads(json.dumps(to_json(plan)))) == plan


@pytest.mark.parametrize(
    ("custom", "scales", "measured", "said"),
    [
        ({"scripts": "a.sql", "init": "data.sql"}, (), [0], "its data by the init script"),
        ({"scripts": "a.sql", "init": "data.sql"}, (5, 20), [5, 20], "scale 20: about 298 MB of pgbench's tables"),
        ({"scripts": "a.sql, select-only@9", "init": "data.sql"}, (), [10], "scale 10: about 149 MB"),
        ({"scripts": "a.sql"}, (), [10], "no data of its own"),
        ({"scripts": "a.sql"}, (0,), [0], "no data of its own"),
    ],
)
def test_pgbenchs_tables_are_loaded_for_scripts_that_bring_no_data_or_where_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    custom: dict[str, str | int],
    scales: tuple[int, ...],
    measured: list[int],
    said: str,
) -> None:
    monkeypatch.setattr("pgdyno.studies.matrix.dry_run.command", lambda *_: ["pgbench"])  # it reads the scripts
    plan = check(MatrixPlan(modes=("custom",), custom=custom, scales=scales))
    assert [plan.workload(cell)["scale"] for cell in plan.cells()] == measured
    lines = "\n".join(dry_run(plan, Pgbench(Path("pgbench"), 18)))
    assert said in lines
    assert ("pgbench's tables" in lines) == (measured != [0])


def test_parameters_reach_every_cell_and_survive_the_study() -> None:
    plan = check(MatrixPlan(modes=("tprocc",), parameters={"warehouses": 4, "shape": "interactive"}))
    assert plan.workload(plan.cells()[0]) == {"warehouses": 4, "shape": "interactive"}
    assert plan_from_json(json.loads(json.dumps(to_json(plan)))) == plan
    said = "\n".join(dry_run(plan, Pgbench(Path("pgbench"), 18)))
    assert "4 warehouses" in said
    assert "of load" in said
    assert "scale" not in said
    read = parse_matrix('version = 1\nparameters = {warehouses = 4}\nmatrix = {modes = ["tprocc"]}', no_files)
    assert (read.parameters, read.modes) == ({"warehouses": 4}, ("tprocc",))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"warehouses": 4, "shape": "other"}, "shape"),
        ({"tab_rows": 1}, 'has no parameter "tab_rows"'),
    ],
)
def test_a_parameter_that_a_workload_does_not_take_is_refused(parameters: dict[str, Value], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_workloads(MatrixPlan(modes=("tprocc",), parameters=parameters))


def test_a_matrix_has_scale_as_a_factor_and_no_loop() -> None:
    with pytest.raises(UsageError, match="factor"):
        check(MatrixPlan(parameters={"scale": 3}))
    with pytest.raises(UsageError, match="loop"):
        check_workloads(MatrixPlan(modes=("ybio",), parameters={"driver": "loop"}))


def test_pods_run_pgbenchs_own_scripts_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tprocc"):
        write_manifests(
            MatrixPlan(modes=("tprocc",)), PodServer("db1"), Pgbench(Path("pgbench"), 18), tmp_path / "m", Cluster()
        )
