"""Cells, order and refusals of a matrix; its file form; what would be run."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_schema import errors
from matrix_example import PGBENCH, PLAN, seed_table
from pgdyno.errors import UsageError
from pgdyno.model.matrix import Cell
from pgdyno.studies.matrix.dry_run import command, dry_run
from pgdyno.studies.matrix.file import parse_matrix, plan_from_json
from pgdyno.studies.matrix.plan import (
    Pod,
    Room,
    check,
    order,
    pods_of_totals,
    skip_reason,
    to_json,
    with_configurations,
)
from pgdyno.units import seconds_text
from pgdyno.workloads.dataset import PgbenchTables
from pgdyno.workloads.pgbench.command import Pgbench

ROOT = Path(__file__).parents[3]


@pytest.mark.requirement("R-BEN-01")
def test_two_by_two_gives_four_rows_for_each_configuration() -> None:
    cells = check(PLAN).cells()
    assert Counter(cell.configuration for cell in cells) == {"default": 4, "tuned": 4}
    assert len(set(cells)) == 8
    every = replace(PLAN, smt=("2", "4"), modes=("tpcb-like", "select-only"), placements=("socket", "loopback"))
    assert len(every.cells()) == 8 * 8
    assert {cell.jobs for cell in replace(PLAN, jobs=()).cells()} == {1, 2}, "one thread a client"
    assert {cell.jobs for cell in replace(PLAN, clients=(2,), jobs=(2, 7)).cells()} == {2}, "threads without a client"


@pytest.mark.requirement("R-BEN-01")
@given(st.integers(0, 1 << 30), st.integers(1, 9))
def test_each_repetition_has_every_cell_once_in_an_order_of_its_own(seed: int, repetition: int) -> None:
    cells = replace(PLAN, scales=(1, 2, 3)).cells()
    drawn = order(cells, repetition, seed)
    assert sorted(map(str, drawn)) == sorted(map(str, cells))
    assert drawn == order(cells, repetition, seed)
    assert drawn != order(cells, repetition + 1, seed)


@given(
    st.builds(
        Cell,
        st.integers(1, 99),
        st.integers(1, 99),
        st.integers(1, 9),
        st.sampled_from(["tpcb-like", "custom"]),
        st.integers(1, 9999),
        st.text("abc-", min_size=1),
        st.sampled_from(["", "2", "off"]),
        st.sampled_from(["", "0-3"]),
        st.sampled_from(["socket", "db1"]),
    )
)
def test_a_cell_comes_back_from_its_factors(cell: Cell) -> None:
    assert Cell.of_factors(cell.factors()) == cell
    assert "" not in cell.factors().values()


@pytest.mark.requirement("R-BEN-10")
def test_a_tuned_configuration_without_the_baseline_is_refused_unless_forced() -> None:
    alone = replace(PLAN, configurations={"tuned": {"max_wal_size": "8GB"}})
    with pytest.raises(UsageError, match='"tuned" has no baseline beside it'):
        check(alone)
    assert check(replace(alone, force=True)).cells()[0].configuration == "tuned"
    assert [*with_configurations(PLAN, {"mine": {"jit": "off"}}).configurations] == ["default", "mine"]
    with pytest.raises(UsageError, match='"default" is the baseline and sets nothing'):
        check(replace(PLAN, configurations={"default": {"jit": "off"}}))


@pytest.mark.requirement("R-BEN-04")
@pytest.mark.parametrize("table", ["pods_power", "pods_x86"])
def test_the_published_pods_have_constant_totals(table: str) -> None:
    rows = seed_table(table)
    pods = {row["pods"]: Pod(row["vcpu"], int(row["mem_gb"] * 2**30)) for row in rows}
    plan = check(replace(PLAN, instances=tuple(pods), pods=pods))
    vcpus = rows[0]["pods"] * rows[0]["vcpu"]
    assert pods_of_totals(tuple(pods), vcpus, "224GB") == pods
    assert {count * (pod.vcpus or 0) for count, pod in plan.pods.items()} == {vcpus}
    uneven = {**pods, rows[0]["pods"]: Pod(1.0, None)}
    with pytest.raises(UsageError, match=r"constant|no bound of memory"):
        check(replace(plan, pods=uneven))
    load = plan.load(plan.cells()[0])
    assert (load.instance_vcpus, load.instance_memory_bytes) == (pods[load.instances].vcpus, 14 * 2**30)


def test_unlike_products_and_half_bounds_are_refused() -> None:
    with pytest.raises(UsageError, match="product of instances and vCPU is not constant: 1 instances 4, 2 instances 4"):
        check(replace(PLAN, pods={1: Pod(4.0), 2: Pod(2.05)}))
    with pytest.raises(UsageError, match="2 instances have no bound of vCPU"):
        check(replace(PLAN, pods={1: Pod(4.0)}))
    with pytest.raises(UsageError, match="above 0"):
        pods_of_totals((1,), -1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"instances": (0,)}, "instances 0 must be at least 1"),
        ({"clients": (2, 2)}, "a level of clients is named twice"),
        ({"modes": ("tpcc",)}, 'mode "tpcc" is not one of'),
        ({"modes": ("custom",)}, "needs scripts"),
        ({"driver_cpus": "a"}, 'CPU list "a"'),
        ({"placements": ()}, "placements has no level"),
        ({"scales": tuple(range(1, 1001))}, "cells are more than"),
    ],
)
def test_plans_that_make_no_sense_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check(replace(PLAN, **change))  # type: ignore[arg-type]


@pytest.mark.requirement("R-BEN-01")
def test_cells_that_do_not_fit_are_skipped_with_the_reason() -> None:
    room = Room(
        max_connections=20,
        own_sessions=5,
        smt_obstacle="one thread a core",
        cpus=(0, 1),
        placements={"loopback": "the server does not listen"},
    )
    plain = Cell(2, 7, 7, "tpcb-like", 1, "default")
    assert skip_reason(PLAN, plain, room) is None
    words = skip_reason(PLAN, replace(plain, clients=8), room)
    assert words == "16 connections do not fit into max_connections = 20"
    assert skip_reason(PLAN, replace(plain, smt="2"), room) == "SMT is not switchable here: one thread a core"
    assert skip_reason(PLAN, replace(plain, server_cpus="0,7"), room) == "this host has no CPU 7"
    assert skip_reason(PLAN, replace(plain, placement="loopback"), room) == "the server does not listen"
    open_room = replace(room, smt_obstacle=None, smt_levels=("off", "on"))
    assert skip_reason(PLAN, replace(plain, smt="4"), open_room) == "SMT 4 is not one of off, on here"
    larger = replace(PLAN, configurations={"default": {}, "many": {"max_connections": "500"}})
    assert skip_reason(larger, replace(plain, clients=100, configuration="many"), room) is None


@pytest.mark.requirement("R-BEN-07", "R-BEN-06", "R-BEN-19")
def test_a_dry_run_shows_pgbench_as_it_will_be_run() -> None:
    plan = replace(PLAN, modes=("tpcb-like", "simple-update", "select-only", "custom"), warmup_s=1, measure_s=2)
    plan = replace(plan, custom={"scripts": "tpcb-like@3,select-only@7"})
    lines = list(dry_run(plan, PGBENCH))
    commands = [line.split() for line in lines if line.startswith("pgbench ")]
    assert len(commands) == len(plan.cells())
    for cell, words in zip(plan.cells(), commands, strict=True):
        assert "-C" not in words
        assert words[words.index("-c") + 1] == str(cell.clients)
        assert words[words.index("-j") + 1] == str(cell.jobs)
        assert words[words.index("-T") + 1] == "3", "the same duration for every cell"
        builtin = [words[place + 1] for place, word in enumerate(words) if word == "-b"]
        assert builtin == (["tpcb-like@3", "select-only@7"] if cell.mode == "custom" else [f"{cell.mode}@1"])
    text = "\n".join(lines)
    assert "simple-update: as tpcb-like without the updates of tellers and branches" in text
    assert "delete" not in text.lower()
    assert "max_wal_size = 8GB" in text
    assert "no server was asked" in lines[1], "which cells it has no room for shows in the run"


@pytest.mark.requirement("R-BEN-08")
@pytest.mark.parametrize(("scale", "gigabytes"), [(1000, 16), (2000, 30)])
def test_the_estimate_is_near_the_published_sizes(scale: int, gigabytes: int) -> None:
    assert PgbenchTables(scale).estimated_bytes == pytest.approx(gigabytes * 1e9, rel=0.05)
    assert any(f"scale {scale}: about " in line for line in dry_run(replace(PLAN, scales=(scale,)), PGBENCH))


@pytest.mark.requirement("R-BEN-23")
def test_the_command_follows_the_version_of_pgbench() -> None:
    cell = PLAN.cells()[0]
    old, new = command(PLAN, cell, Pgbench(Path("pgbench"), 13)), command(PLAN, cell, PGBENCH)
    assert {"--failures-detailed", "--exit-on-abort"} <= set(new)
    assert not {"--failures-detailed", "--exit-on-abort"} & set(old)
    assert "-d" not in new, "its meaning changed with 17"
    assert "--failures-detailed" in command(PLAN, cell, Pgbench(Path("pgbench"), 15))


def no_files(name: str) -> dict[str, str]:
    raise AssertionError(name)


@pytest.mark.parametrize("path", sorted((ROOT / "examples/matrices").glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_are_plans_of_the_documented_form(path: Path) -> None:
    schema = json.loads((ROOT / "docs/reference/matrix.schema.json").read_text())
    assert list(errors(tomllib.loads(path.read_text()), schema)) == []
    plan = check(parse_matrix(path.read_text(), no_files))
    assert next(iter(plan.configurations)) == "default"
    assert plan_from_json(json.loads(json.dumps(to_json(plan)))) == plan


def test_a_bare_level_and_a_trace_are_of_the_documented_form() -> None:
    schema = json.loads((ROOT / "docs/reference/matrix.schema.json").read_text())
    text = 'version = 1\n[matrix]\nclients = 8\nmodes = ["replay:day.parquet", "tprocc"]\n'
    assert parse_matrix(text, no_files).clients == (8,)
    assert list(errors(tomllib.loads(text), schema)) == []
    assert list(errors(tomllib.loads(text.replace("replay:", "repaly:")), schema)) != []


@pytest.mark.requirement("R-BEN-24")
def test_networks_are_recorded_with_the_plan() -> None:
    text = (ROOT / "examples/matrices/pods.toml").read_text()
    plan = parse_matrix(text, no_files)
    assert plan.network == {"admin": "VLAN 10", "injection": "VLAN 20", "client": "VLAN 30"}
    assert to_json(plan)["network"] == plan.network


def test_settings_of_a_file_are_overlaid() -> None:
    text = 'version = 1\n[[configuration]]\nname = "a"\nfile = "a.conf"\nsettings = { jit = false, work_mem = "8MB" }\n'
    plan = parse_matrix(text, lambda name: {"work_mem": "4MB", "from": name})
    assert plan.configurations == {"a": {"work_mem": "8MB", "from": "a.conf", "jit": "off"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version = 2", "^plan: line 1: version 2 is not 1"),
        ("version = true", "version True is not 1"),
        ("version = 1\nmatrix = 3", "matrix is not a table"),
        ("[matrix]", '"version" is missing'),
        ("version = 1\n[matrix]\n\npods = [3]", '^plan: line 4: matrix: unknown key "pods"'),
        ('version = 1\n[matrix]\nclients = ["3"]', '"clients" is not a list of whole numbers'),
        ("version = 1\n[matrix]\nclients = [true]", '"clients" is not a list of whole numbers'),
        ("version = 1\n[matrix]\nwarmup_s = '3'", '"warmup_s" is text and not a number'),
        ("version = 1\n[network]\nother = 'x'", '^plan: line 3: network: unknown key "other"'),
        ("version = 1\n[parameters]\nother = []", "^plan: line 3: parameters: other is not a text"),
        ("version = 1\n[[pod]]\ninstances = 1\nmemory = '3 apples'", "^plan: line 4: pod 1: "),
        ("version = 1\nconfiguration = 3", "configuration is not a list of tables"),
        ("version = 1\n[[configuration]]\nname = 3", '"name" is a number and not text'),
        (
            "version = 1\n[[configuration]]\nname = 'a'\n[[configuration]]\nname = 'a'",
            '^plan: line 5: configuration "a": .*appears twice',
        ),
        ("= 1", "not TOML"),
    ],
)
def test_slips_in_a_plan_are_told_by_their_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_matrix(text, no_files)


def test_a_dry_run_says_how_long_the_loads_take() -> None:
    plan = replace(PLAN, repetitions=2, warmup_s=10.0, measure_s=20.0)
    runs = 1 + 2 * len(plan.cells())  # the baseline before them
    assert any(line.startswith(f"# at most {seconds_text(30.0 * runs)} of load") for line in dry_run(plan, PGBENCH))


def test_a_load_that_could_not_be_scored_is_refused() -> None:
    check(replace(PLAN, warmup_s=1.0, measure_s=2.0))
    with pytest.raises(UsageError, match="together at least 3 s"):
        check(replace(PLAN, warmup_s=0.0, measure_s=2.0))
