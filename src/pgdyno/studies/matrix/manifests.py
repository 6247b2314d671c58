"""Kubernetes and OpenShift Jobs for the load generators of a matrix, as JSON manifests, which kubectl takes as YAML.

One Job a run, suspended until `run.sh` lets it go: as many pods at once as the cell has load generators, each with its
share of CPU and memory. The first pod makes the data; a gate in the database holds all until the last has come; every
pod prints what it measured, which `fleet.pod_log` reads back. The password comes from a Secret by reference. Pure but
for `write_manifests`.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from pgdyno.errors import UsageError
from pgdyno.fleet.pod_log import PODS
from pgdyno.knobs.policy import Durability, class_of, refuse
from pgdyno.model.matrix import BUILTIN, Cell
from pgdyno.outputs import ensure_folder, write_output
from pgdyno.studies.matrix.dry_run import command
from pgdyno.studies.matrix.plan import PLACEMENTS, MatrixPlan, Pod, order
from pgdyno.workloads.pgbench.command import Pgbench

SECRET, SECRET_KEY = "pgdyno-load", "password"
NAMESPACE, DRIVER, SCRIPT = "pgdyno", "pgdyno-driver", "drive.sh"
GRACE_S, LOAD_S_PER_SCALE = 180, 0.5
"""Beside the load itself a Job may take this long: to start its pods, and to make the data of each unit of scale."""
USER = 999
"""The user of the image `postgres`, which has no numeric one of its own; restricted OpenShift gives another to pods."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the Jobs are for. `restricted`: the namespace chooses the user, as OpenShift's policy wants it."""

    image: str = ""
    restricted: bool = False


@dataclass(frozen=True, slots=True)
class PodServer:
    """Where the pods find the server. `database` holds pgbench's tables, made before."""

    host: str
    port: str = "5432"
    user: str = "postgres"
    database: str = "pgbench"

    @classmethod
    def of_conninfo(cls, conninfo: str) -> PodServer:
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


@dataclass(frozen=True, slots=True)
class PodRun:
    """One run of a cell: its number in the order of all runs, counted from 1, and its repetition."""

    number: int
    repetition: int
    cell: Cell

    @property
    def name(self) -> str:
        """Return the name of its Job."""
        return f"pgdyno-run-{self.number:03d}"


def runs(plan: MatrixPlan) -> Iterator[PodRun]:
    """Yield every run in the order in which it is to be made: repetition by repetition, as `run_matrix` does."""
    cells, number = plan.cells(), 0
    for repetition in range(1, plan.repetitions + 1):
        for cell in order(cells, repetition, plan.seed):
            number += 1
            yield PodRun(number, repetition, cell)


def job(plan: MatrixPlan, run: PodRun, address: PodServer, pgbench: Pgbench, cluster: Cluster) -> dict[str, object]:
    """Return the Job of one run: its load generators as pods that run at once and are never started again.

    `plan` has the load and the pods' limits, `run` the cell and its number. The pods connect to `address`, with the
    host that the cell's placement names, if it names one. Of `pgbench` only the version counts, as the program is that
    of the image: the one that `cluster` names, else `postgres` of that version.
    """
    cell = run.cell
    host = cell.placement if cell.placement not in PLACEMENTS else address.host
    told = replace(cell, placement=host).factors()
    argv = command(plan, cell, Pgbench(Path("pgbench"), pgbench.version))
    argv = [word.replace("RUN/", "/tmp/") for word in argv[:-1]] + [address.database]  # noqa: S108 - the pod's own volume
    environment: list[dict[str, object]] = [
        {"name": "PGHOST", "value": host},
        {"name": "PGPORT", "value": address.port},
        {"name": "PGUSER", "value": address.user},
        {"name": "PGDATABASE", "value": address.database},
        {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": SECRET_KEY}}},
        {"name": "PGDYNO_LOAD", "value": json.dumps(_told(plan, run, host, pgbench))},
    ]
    container = {
        "name": "pgbench",
        "image": cluster.image or f"docker.io/library/postgres:{pgbench.version}",
        "command": ["/bin/sh", f"/pgdyno/{SCRIPT}", *_driver_words(plan, run), *argv],
        "env": environment,
        "resources": resources(plan.pods.get(cell.instances, Pod())),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "logs", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod alone
            {"name": "driver", "mountPath": "/pgdyno", "readOnly": True},
        ],
    }
    labels = {"app.kubernetes.io/name": "pgdyno-load", "pgdyno/run": f"{run.number:03d}"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": run.name,
            "namespace": NAMESPACE,
            "labels": labels,
            "annotations": {f"pgdyno/{key.replace('_', '-')}": value for key, value in told.items()},
        },
        "spec": {
            "suspend": True,
            "completions": cell.instances,
            "parallelism": cell.instances,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
            "activeDeadlineSeconds": deadline_s(plan, cell),
            "template": {"metadata": {"labels": labels}, "spec": _pod(container, cluster)},
        },
    }


def _pod(container: Mapping[str, object], cluster: Cluster) -> dict[str, object]:
    user = {} if cluster.restricted else {"runAsUser": USER, "runAsGroup": USER}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, **user, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "logs", "emptyDir": {}}, {"name": "driver", "configMap": {"name": DRIVER}}],
        "affinity": _not_beside_the_server(),
    }


def _driver_words(plan: MatrixPlan, run: PodRun) -> list[str]:
    """Return the arguments of drive.sh: pods, the gate's key (an int4 of its own for each Job), scale, patience."""
    key = zlib.crc32(f"{NAMESPACE}/{run.name}/{plan.seed}".encode()) & 0x7FFFFFFF
    return [str(run.cell.instances), str(key), str(run.cell.scale), str(_patience_s(run.cell))]


def _told(plan: MatrixPlan, run: PodRun, host: str, pgbench: Pgbench) -> dict[str, object]:
    """Return what a pod says of itself, so that its output can be read without the plan."""
    pod = plan.pods.get(run.cell.instances, Pod())
    return {
        "cell": replace(run.cell, placement=host).factors(),
        "settings": dict(plan.configurations[run.cell.configuration]),
        "repetition": run.repetition,
        "repetitions": plan.repetitions,
        "number": run.number,
        "seed": plan.seed,
        "warmup_s": plan.warmup_s,
        "measure_s": plan.measure_s,
        "protocol": plan.protocol,
        "pgbench": pgbench.version,
        "vcpus": pod.vcpus,
        "memory_bytes": pod.memory_bytes,
        "network": dict(plan.network),
    }


def _patience_s(cell: Cell) -> int:
    return GRACE_S + math.ceil(LOAD_S_PER_SCALE * cell.scale)


def deadline_s(plan: MatrixPlan, cell: Cell) -> int:
    """Return how long a Job may take before the cluster ends it: to the gate, the load, and its output."""
    return 2 * _patience_s(cell) + math.ceil(plan.load(cell).duration_s)


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
    """Return the namespace of the Jobs; its label lets the cluster refuse a pod that is more than restricted."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def driver() -> dict[str, object]:
    """Return the ConfigMap with the script that every pod runs."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": DRIVER, "namespace": NAMESPACE},
        "data": {SCRIPT: (PODS / SCRIPT).read_text("utf-8")},
    }


def run_script(plan: MatrixPlan) -> str:
    """Return the script that runs the Jobs in their order and fetches what they print."""
    lines = [
        f"{run.number:03d}\t{run.name}\t{deadline_s(plan, run.cell)}\t{run.cell.configuration}\t"
        f"{run.cell.smt or 'as-found'}\t{run.cell.server_cpus or 'all'}"
        for run in runs(plan)
    ]
    text = (PODS / "run.sh").read_text("utf-8")
    return text.replace("@NAMESPACE@", NAMESPACE).replace("@ORDER@", "\n".join(lines))


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
    if pod["restartPolicy"] != "Never" or spec["backoffLimitPerIndex"] != 0:
        found.append("a pod that ended short would be started again")
    if not spec["suspend"]:
        found.append("all Jobs would run at once")
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
            found.append("every transaction would reconnect (-C)")
    return found + (["a password is in the text"] if "password=" in text else [])


def write_manifests(
    plan: MatrixPlan, address: PodServer, pgbench: Pgbench, folder: Path, cluster: Cluster | None = None
) -> list[Path]:
    """Write namespace, driver, one file a run and run.sh, and return the paths.

    Each run of `plan` becomes a Job; `address`, `pgbench` and `cluster` are as in `job`, and `cluster` None stands for
    the default image on plain Kubernetes. `folder` is made where it is missing, and must hold neither other Jobs nor
    pods' output. Raises UsageError when the folder will not do, or for cells that pods cannot run; PolicyError for
    class X, which a server outside of our sandboxes never sees, by our hand or by that of people whom run.sh asks.
    """
    _check(plan)
    manifests = {"000-namespace.json": namespace(), "000-driver.json": driver()}
    for run in runs(plan):
        manifests[f"{run.number:03d}-job.json"] = job(plan, run, address, pgbench, cluster or Cluster())
    wrong = [problem for manifest in manifests.values() for problem in lint(manifest)]
    if wrong:
        raise UsageError(f"the manifests would be wrong: {wrong[0]}")
    texts = {name: json.dumps(manifest, indent=2) + "\n" for name, manifest in manifests.items()}
    texts["run.sh"] = run_script(plan)
    _check_folder(folder, texts)
    try:
        ensure_folder(folder)
        for name, text in texts.items():
            write_output(folder / name, text)
        (folder / "run.sh").chmod(0o700)
    except OSError as error:
        raise UsageError(
            f'manifests cannot be written into "{folder}"', detail=error.strerror, hint="Name another folder."
        ) from error
    return [folder / name for name in texts]


def _check_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Refuse a folder of another plan: its Jobs and the output of its pods would be taken for those of this one."""
    others = [path.name for path in sorted(folder.glob("*-job.json")) if path.name not in texts]
    logs = sorted(folder.glob("logs/*.log"))
    if others or logs:
        raise UsageError(
            f'folder "{folder}" holds {f"Job {others[0]}" if others else f"output {logs[0].name}"} of an earlier plan',
            hint="Name another folder, or remove that one.",
        )


def _check(plan: MatrixPlan) -> None:
    for settings in plan.configurations.values():
        for name in settings:
            if class_of(name.lower()) is Durability.X:
                refuse(name.lower())
    if "custom" in plan.modes:
        raise UsageError(
            "mode custom has scripts on this machine, which the pods have not",
            hint="Leave it out with --mode, or put the scripts into an image of your own.",
        )
    if others := [mode for mode in plan.modes if mode not in BUILTIN] + [*plan.parameters]:
        raise UsageError(
            f"the pods make pgbench's tables and run its own scripts, and cannot do {others[0]}",
            hint="Leave out --workload and -D: a matrix without --manifests takes both.",
        )
    by_tcp = [placement for placement in plan.placements if placement not in PLACEMENTS]
    if len(plan.placements) > 1 and len(by_tcp) < len(plan.placements):
        raise UsageError(
            "pods reach the server by TCP from other hosts only",
            hint="Compare addresses of the server: --placement db1-a,db1-b.",
        )
