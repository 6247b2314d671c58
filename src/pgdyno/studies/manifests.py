"""Kubernetes and OpenShift Jobs for the load generators of a matrix, as JSON manifests, which kubectl takes as YAML.

One Job a cell with as many pods at once as the cell has load generators, each with its share of CPU and memory. The
password comes from a Secret by reference; nothing secret is in the text. Pure but for `write_manifests`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from pgdyno.errors import UsageError
from pgdyno.model.matrix import Cell
from pgdyno.studies.matrix_dry_run import command
from pgdyno.studies.matrix_plan import MatrixPlan, Pod
from pgdyno.workloads.pgbench_command import Pgbench

SECRET, SECRET_KEY = "pgdyno-load", "password"
NAMESPACE = "pgdyno"
GRACE_S = 120


@dataclass(frozen=True, slots=True)
class Address:
    """Where the pods find the server. `database` holds pgbench's tables, made before."""

    host: str
    port: str = "5432"
    user: str = "postgres"
    database: str = "pgbench"

    @classmethod
    def of_conninfo(cls, conninfo: str) -> Address:
        """Return the address in a conninfo, its password left out. Raises UsageError without a host to reach."""
        try:
            given = conninfo_to_dict(conninfo)
        except Exception as error:
            raise UsageError("the connection string cannot be read", hint="--target 'host=db1 dbname=app'") from error
        host = str(given.get("host") or given.get("hostaddr") or "")
        if not host or host.startswith("/"):
            raise UsageError(
                "the pods need a server that they can reach by TCP",
                hint="Name it with --target 'host=db1.example.com dbname=pgbench user=load'.",
            )
        plain = {name: str(given[key]) for name, key in _KEYS.items() if given.get(key)}
        return cls(host, **plain)


_KEYS = {"port": "port", "user": "user", "database": "dbname"}


def job(plan: MatrixPlan, cell: Cell, number: int, address: Address, pgbench: Pgbench) -> dict[str, object]:
    """Return the Job of one cell: its load generators as pods that run at once and are never restarted."""
    name = f"pgdyno-cell-{number:03d}"
    argv = command(plan, cell, Pgbench(Path("pgbench"), pgbench.version))
    argv = [word.replace("RUN/", "/tmp/") for word in argv[:-1]] + [address.database]  # noqa: S108 - in the pod
    environment: list[dict[str, object]] = [
        {"name": "PGHOST", "value": address.host},
        {"name": "PGPORT", "value": address.port},
        {"name": "PGUSER", "value": address.user},
        {"name": "PGAPPNAME", "value": "pgdyno load"},
        {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": SECRET_KEY}}},
    ]
    load = plan.load(cell)
    container = {
        "name": "pgbench",
        "image": f"docker.io/library/postgres:{pgbench.version}",
        "command": argv,
        "env": environment,
        "resources": resources(plan.pods.get(cell.instances, Pod())),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "logs", "mountPath": "/tmp"}],  # noqa: S108 - in the pod
    }
    labels = {"app.kubernetes.io/name": "pgdyno-load", "pgdyno/cell": f"{number:03d}"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels,
            "annotations": {f"pgdyno/{key.replace('_', '-')}": value for key, value in cell.factors().items()},
        },
        "spec": {
            "completions": cell.instances,
            "parallelism": cell.instances,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(load.duration_s) + GRACE_S,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [container],
                    "volumes": [{"name": "logs", "emptyDir": {}}],
                    "affinity": _not_beside_the_server(),
                },
            },
        },
    }


def resources(pod: Pod) -> dict[str, object]:
    """Return requests equal to limits, so that a pod gets neither more nor less than its share."""
    amounts: dict[str, str] = {}
    if pod.vcpus is not None:
        amounts["cpu"] = f"{round(1000 * pod.vcpus)}m"
    if pod.memory_bytes is not None:
        amounts["memory"] = str(pod.memory_bytes)
    return {"requests": dict(amounts), "limits": dict(amounts)} if amounts else {}


def _not_beside_the_server() -> dict[str, object]:
    """Keep the load generators off the nodes that carry a database, as far as these are labelled so."""
    term = {"matchExpressions": [{"key": "pgdyno/database", "operator": "DoesNotExist"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def namespace() -> dict[str, object]:
    """Return the namespace of the Jobs."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def lint(manifest: dict[str, object]) -> list[str]:
    """Return what a cluster would refuse, or what would make pods unequal; empty when nothing is wrong."""
    found = [f"{key} is missing" for key in ("apiVersion", "kind", "metadata") if key not in manifest]
    text = json.dumps(manifest)
    if manifest.get("kind") != "Job":
        return found
    spec = manifest["spec"]
    assert isinstance(spec, dict), "a Job has a specification"
    if spec["completions"] != spec["parallelism"]:
        found.append("the pods would not run at once")
    pod = spec["template"]["spec"]
    if pod["restartPolicy"] != "Never" or spec["backoffLimit"] != 0:
        found.append("a pod that ended short would be started again")
    for container in pod["containers"]:
        limits = container["resources"]
        if limits and limits["requests"] != limits["limits"]:
            found.append("requests and limits differ")
        found += [
            f"{entry['name']} has its value in the text"
            for entry in container["env"]
            if "PASSWORD" in entry["name"] and "value" in entry
        ]
        if "-C" in container["command"]:
            found.append("every transaction would connect anew (-C)")
    return found + (["a password is in the text"] if "password=" in text else [])


def write_manifests(plan: MatrixPlan, address: Address, pgbench: Pgbench, folder: Path) -> list[Path]:
    """Write the namespace and one file a cell, and return the paths. Raises UsageError when the folder will not do."""
    if "custom" in plan.modes:
        raise UsageError(
            "mode custom has scripts on this machine, which the pods have not",
            hint="Leave it out with --mode, or put the scripts into an image of your own.",
        )
    manifests = [namespace()]
    manifests += [job(plan, cell, number, address, pgbench) for number, cell in enumerate(plan.cells(), start=1)]
    wrong = [problem for manifest in manifests for problem in lint(manifest)]
    if wrong:
        raise UsageError(f"the manifests would be wrong: {wrong[0]}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write(folder, number, manifest) for number, manifest in enumerate(manifests)]
    except OSError as error:
        raise UsageError(f'manifests cannot be written into "{folder}"', detail=error.strerror) from error


def _write(folder: Path, number: int, manifest: dict[str, object]) -> Path:
    path = folder / ("000-namespace.json" if number == 0 else f"{number:03d}-job.json")
    path.write_text(json.dumps(manifest, indent=2) + "\n")
    return path
