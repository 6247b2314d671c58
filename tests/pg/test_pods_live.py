"""The script of a pod as a cluster runs it, several at once against a real server, and its output read back."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.fleet.pod_log import read_pod
from pgdyno.linux import processes
from pgdyno.model.trial import Role
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.matrix.imported_pods import import_pods
from pgdyno.studies.matrix.manifests import Cluster, PodServer, driver, job, runs
from pgdyno.studies.matrix.plan import MatrixPlan
from pgdyno.workloads.pgbench.command import find_pgbench
from server_image import eventually

pytestmark = pytest.mark.pg

PLAN = MatrixPlan(instances=(2,), clients=(2,), jobs=(1,), scales=(1,), repetitions=1, warmup_s=1, measure_s=6)


@contextmanager
def pod(sandbox: Sandbox, folder: Path, index: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run drive.sh as the Job's container does, with a folder of its own for /tmp."""
    target = sandbox.target()
    manifest = job(PLAN, next(runs(PLAN)), PodServer("db1", database="postgres"), find_pgbench(target), Cluster())
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    (container,) = spec["template"]["spec"]["containers"]
    data = driver()["data"]
    assert isinstance(data, dict)
    folder.mkdir()
    script = folder / "drive.sh"
    script.write_text(data["drive.sh"])
    programs = f"{find_pgbench(target).path.parent}:{os.environ['PATH']}"
    given = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    own = {"PATH": programs, "JOB_COMPLETION_INDEX": str(index), "PGDYNO_FOLDER": str(folder)}
    words = [word.replace("/tmp/", f"{folder}/") for word in container["command"][2:]]
    with (folder / "log").open("wb") as log:
        popen = subprocess.Popen(
            ["/bin/sh", str(script), *words],
            env={**given, **target.postgres.environment("postgres"), **own},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield popen
            popen.wait(120)
        finally:
            popen.kill()


@contextmanager
def held(load: processes.ProcessStat) -> Iterator[None]:
    """Keep a load generator from ending: the sessions that a third pod looks for stay, however late it asks."""
    os.kill(load.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(load.pid, signal.SIGCONT)


def generators_of(popen: subprocess.Popen[bytes]) -> list[processes.ProcessStat]:
    return [one for one in processes.children_of(popen.pid) if one.command == "pgbench" and not one.has_ended]


@pytest.mark.requirement("R-BEN-05", "R-BEN-02", "R-MON-04")
def test_pods_begin_together_and_their_output_becomes_a_row(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    sandbox = make_sandbox("pods")
    sandbox.start()
    postgres = sandbox.target().postgres
    at_work = "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name LIKE 'pgdyno load%%'"
    with pod(sandbox, tmp_path / "a", 0), pod(sandbox, tmp_path / "b", 1) as two:
        eventually(lambda: postgres.fetch(at_work) == [{"n": 4}], "both pods are at work")
        (load,) = generators_of(two)
        with held(load), pod(sandbox, tmp_path / "again", 0) as again:
            assert again.wait(60) == 0
    files = [(read_pod(text, name=name), text) for name in "ab" if (text := (tmp_path / name / "log").read_text())]
    late = read_pod((tmp_path / "again/log").read_text(), name="again")
    assert (late.result, late.reason and "runs already" in late.reason) == (None, True), "it took no data away"
    ran = [each.result for each, _ in files if each.result is not None]
    assert len(ran) == 2, [each.reason for each, _ in files]
    assert max(one.began_at for one in ran) < min(one.ended_at for one in ran), "the gate opens for both"
    with Store.open(tmp_path / "store.db") as store:
        result = import_pods(store, files)
        (trial,) = store.trials(result.study)
        seconds = len(store.samples(trial.id, "sessions")["t"])
        lasted = max(one.ended_at for one in ran) - min(one.began_at for one in ran)
    assert trial.spec.role is Role.CELL
    assert trial.outcome is not None
    (row,) = postgres.for_load("postgres").fetch("SELECT count(*) AS grown FROM pgbench_history")
    assert row["grown"] == trial.outcome.transactions > 0
    assert 2 <= seconds <= lasted + 2, "one sample a second of seven, of which a busy machine loses some"
