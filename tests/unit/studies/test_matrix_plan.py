"""Cells, order and refusals of a matrix; its file form; what would be run; pods for a cluster.

A little past 400 lines: all of it is asked of one small matrix.
"""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_schema import errors
from matrix_example import seed_table
from pgdyno.errors import PolicyError, UsageError
from pgdyno.fleet.pod_log import read_pod
from pgdyno.model.matrix import Cell
from pgdyno.studies.matrix.dry_run import command, dry_run
from pgdyno.studies.matrix.file import parse_matrix, plan_from_json
from pgdyno.studies.matrix.manifests import Cluster, PodServer, job, lint, runs, write_manifests
from pgdyno.studies.matrix.plan import (
    MatrixPlan,
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
TUNED = {"default": {}, "tuned": {"max_wal_size": "8GB"}}
PLAN = MatrixPlan(instances=(1, 2), clients=(1, 2), jobs=(1,), configurations=TUNED)
PGBENCH = Pgbench(Path("pgbench"), 18)
ADDRESS = PodServer.of_conninfo("host=db1 dbname=bench user=load password=hidden")


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
        ("version = 2", "version 2 is not 1"),
        ("version = 1\nmatrix = 3", "matrix is not a table"),
        ("version = 1\n[matrix]\npods = [3]", 'unknown key "pods"'),
        ('version = 1\n[matrix]\nclients = ["3"]', '"clients" is not a list of whole numbers'),
        ("version = 1\n[matrix]\nclients = [true]", '"clients" is not a list of whole numbers'),
        ("version = 1\n[matrix]\nwarmup_s = '3'", '"warmup_s" is text and not a number'),
        ("version = 1\n[network]\nother = 'x'", 'unknown key "other"'),
        ("version = 1\nconfiguration = 3", "configuration is not a list of tables"),
        ("version = 1\n[[configuration]]\nname = 3", '"name" is a number and not text'),
        ("version = 1\n[[configuration]]\nname = 'a'\n[[configuration]]\nname = 'a'", "is there twice"),
        ("= 1", "not TOML"),
    ],
)
def test_slips_in_a_plan_are_told_by_their_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_matrix(text, no_files)


@pytest.mark.requirement("R-BEN-05", "R-BEN-03")
def test_manifests_run_the_pods_at_once_with_their_share_and_no_secret(tmp_path: Path) -> None:
    plan = check(replace(PLAN, pods=pods_of_totals(PLAN.instances, 8, "32GB")))
    *written, script = write_manifests(plan, ADDRESS, PGBENCH, tmp_path / "jobs")
    manifests = [json.loads(path.read_text()) for path in written]
    assert [one["kind"] for one in manifests] == ["Namespace", "ConfigMap"] + ["Job"] * 3 * len(plan.cells())
    assert len({one["metadata"]["name"] for one in manifests}) == len(manifests)
    assert not any(lint(one) for one in manifests)
    drawn = [cell for repetition in (1, 2, 3) for cell in order(plan.cells(), repetition, plan.seed)]
    for cell, one in zip(drawn, manifests[2:], strict=True):
        spec = one["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        assert spec["parallelism"] == spec["completions"] == cell.instances
        assert spec["suspend"] is True
        assert container["resources"]["limits"]["cpu"] == f"{8000 // cell.instances}m"
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert container["command"][-1] == "bench"
        password = next(entry for entry in container["env"] if entry["name"] == "PGPASSWORD")
        assert set(password["valueFrom"]) == {"secretKeyRef"}
    assert all("hidden" not in path.read_text() for path in (*written, script))
    listed = [line.split("\t") for line in script.read_text().splitlines() if line.count("\t") == 5]
    assert [(words[1], words[3]) for words in listed] == [
        (one["metadata"]["name"], cell.configuration) for cell, one in zip(drawn, manifests[2:], strict=True)
    ]


@pytest.mark.requirement("R-BEN-05")
@pytest.mark.parametrize("restricted", [False, True])
def test_pods_keep_to_what_restricted_policies_ask_for(restricted: bool) -> None:
    manifest = job(PLAN, next(runs(PLAN)), ADDRESS, PGBENCH, Cluster("registry/load:1", restricted=restricted))
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry/load:1"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    # The image says no numeric user, so that a cluster without the namespace's own must be told one.
    assert ("runAsUser" in pod["securityContext"]) is not restricted
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"emptyDir", "configMap"} == {kind for volume in pod["volumes"] for kind in volume if kind != "name"}


def test_every_run_has_a_gate_of_its_own_and_says_what_it_is() -> None:
    keys = set()
    for run in runs(PLAN):
        manifest = job(PLAN, run, ADDRESS, PGBENCH, Cluster())
        spec = manifest["spec"]
        assert isinstance(spec, dict)
        (container,) = spec["template"]["spec"]["containers"]
        pods, key, scale, _ = container["command"][2:6]
        assert (pods, scale) == (str(run.cell.instances), "10")
        assert 0 <= int(key) < 2**31, "an advisory lock takes an int4"
        keys.add(key)
        told = next(entry["value"] for entry in container["env"] if entry["name"] == "PGDYNO_LOAD")
        pod = read_pod(f"pgdyno-pod 1 0 {told}\n", name="pod")
        assert pod.run.cell == replace(run.cell, placement="db1")
        assert (pod.run.number, pod.run.repetition) == (run.number, run.repetition)
        assert pod.run.plan == replace(PLAN.load(run.cell), host="db1")
    assert len(keys) == 3 * len(PLAN.cells())


def test_addresses_of_the_server_are_placements_and_sockets_are_none(tmp_path: Path) -> None:
    plan = replace(PLAN, placements=("db1-a", "db1-b"))
    hosts = set()
    for run in runs(plan):
        manifest = job(plan, run, ADDRESS, PGBENCH, Cluster())
        metadata = manifest["metadata"]
        assert isinstance(metadata, dict)
        hosts.add(metadata["annotations"]["pgdyno/placement"])
    assert hosts == {"db1-a", "db1-b"}
    with pytest.raises(UsageError, match="by TCP from other hosts only"):
        write_manifests(replace(PLAN, placements=("socket", "db1-b")), ADDRESS, PGBENCH, tmp_path)


@pytest.mark.requirement("R-BEN-05", "R-BEN-16")
def test_nobody_is_asked_to_bring_class_x_to_a_server_and_no_plan_is_mixed_with_another(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    for name in ("fsync", "FSync"):
        unsafe = replace(PLAN, configurations={"default": {}, "fast": {name: "off"}})
        with pytest.raises(PolicyError, match="fsync"):
            write_manifests(unsafe, ADDRESS, PGBENCH, folder)
    assert not folder.exists()
    write_manifests(PLAN, ADDRESS, PGBENCH, folder)
    write_manifests(PLAN, ADDRESS, PGBENCH, folder, Cluster(restricted=True))
    with pytest.raises(UsageError, match=r"holds Job \d+-job.json of an earlier plan"):
        write_manifests(replace(PLAN, repetitions=1), ADDRESS, PGBENCH, folder)
    (folder / "logs").mkdir()
    (folder / "logs" / "pgdyno-run-001-x.log").touch()
    with pytest.raises(UsageError, match=r"output pgdyno-run-001-x\.log"):
        write_manifests(PLAN, ADDRESS, PGBENCH, folder)


def test_a_manifest_that_would_compare_unlike_pods_is_found() -> None:
    manifest = job(PLAN, list(runs(PLAN))[-1], ADDRESS, PGBENCH, Cluster())
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    spec["parallelism"] = 7
    spec["backoffLimitPerIndex"] = 1
    spec["suspend"] = False
    container = spec["template"]["spec"]["containers"][0]
    container["env"].append({"name": "PGPASSWORD", "value": "open"})
    container["command"].insert(1, "-C")
    assert lint(manifest) == [
        "the pods would not run at once",
        "a pod that ended short would be started again",
        "all Jobs would run at once",
        "PGPASSWORD has its value in the text",
        "every transaction would reconnect (-C)",
    ]


@pytest.mark.requirement("R-BEN-05", "R-BEN-10")
def test_the_script_runs_the_jobs_in_order_and_asks_for_each_state_of_the_server(tmp_path: Path) -> None:
    plan = replace(
        PLAN, instances=(2,), clients=(1,), repetitions=3, configurations={"default": {}, "a b": {"jit": "off"}}
    )
    write_manifests(plan, ADDRESS, PGBENCH, tmp_path)
    for name, text in (
        (
            "kubectl",
            'echo "$*" >>calls\ncase "$*" in *" get job "*) echo Complete ;; *" get pods "*) echo pod/x-0 ;; esac',
        ),
        ("configure", 'echo "$1|$2|$3" >>states'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", str(tmp_path / "run.sh"), "2"], check=True, env=environment, capture_output=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    drawn = list(runs(plan))[1:]
    started = [call.split()[4] for call in calls if call.startswith("-n pgdyno patch job")]
    assert started == [run.name for run in drawn], "from the second on, in their order"
    states = [run.cell.configuration for place, run in enumerate(drawn)
              if not place or run.cell.configuration != drawn[place - 1].cell.configuration]  # fmt: skip
    assert (tmp_path / "states").read_text().splitlines() == [f"{name}|as-found|all" for name in states]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == sorted(f"{run.name}-x-0.log" for run in drawn)


@pytest.mark.parametrize("conninfo", ["", "dbname=x", "host=/run/postgresql"])
def test_pods_need_a_server_that_they_can_reach(conninfo: str) -> None:
    with pytest.raises(UsageError, match="reach by TCP"):
        PodServer.of_conninfo(conninfo)


def test_a_dry_run_says_how_long_the_loads_take() -> None:
    plan = replace(PLAN, repetitions=2, warmup_s=10.0, measure_s=20.0)
    runs = 1 + 2 * len(plan.cells())  # the baseline before them
    assert any(line.startswith(f"# at most {seconds_text(30.0 * runs)} of load") for line in dry_run(plan, PGBENCH))


def test_a_load_that_could_not_be_scored_is_refused() -> None:
    check(replace(PLAN, warmup_s=1.0, measure_s=2.0))
    with pytest.raises(UsageError, match="together at least 3 s"):
        check(replace(PLAN, warmup_s=0.0, measure_s=2.0))
