"""A matrix as Jobs of a cluster: pods that run at once, the script that runs them, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from matrix_example import PGBENCH, PLAN
from pgdyno.errors import PolicyError, UsageError
from pgdyno.fleet.pod_log import read_pod
from pgdyno.studies.matrix.manifests import Cluster, PodServer, job, lint, runs, write_manifests
from pgdyno.studies.matrix.plan import (
    check,
    order,
    pods_of_totals,
)

ADDRESS = PodServer.of_conninfo("host=db1 dbname=bench user=load password=hidden")


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
