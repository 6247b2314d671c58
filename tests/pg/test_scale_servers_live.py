"""Two levels on two real servers, killed and resumed: each has a study of its own, and nothing is left on either."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from fix_sshd import Sshd
from foreign_server import foreign_debian
from pgdyno.cli.scale import command
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.results.scale import ScaleResult
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.replay.target_facts import ALLOWED
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.studies.scale.file import parse_plan
from pgdyno.studies.scale.servers import check_servers
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target

pytestmark = pytest.mark.pg
WAIT_S = 300.0
PLAN = """\
version = 1
[scale]
name = "two servers"
proportion = false
repetitions = 4
[load]
workload = "select-only"
rate = 40
clients = 2
warmup = "1s"
measure = "3s"
[criterion]
success = "5 %"
response = "90 %"
path_length = "90 %"
[[level]]
percent = 50
target = SERVER
[[level]]
percent = 100
"""
debian = pytest.fixture(foreign_debian)
DATABASES = "SELECT count(*) AS n FROM pg_catalog.pg_database WHERE NOT datistemplate"


def of_the_server(path: Path, name: str) -> str:
    """Return the study of a server that has a run; empty while there is none."""
    if not path.exists():
        return ""
    with Store.open(path) as store:
        found = [one.id for one in store.studies() if one.target == name]
        return next((one for one in found if any(trial.outcome for trial in store.trials(one))), "")


def test_two_conninfos_of_one_server_are_refused(server_home: Path, pgdyno_home: Path, tmp_path: Path) -> None:
    other = Sandbox.open_or_create("scaled", root=server_home)
    try:
        other.start()
        both = [make_conninfo(other.target().postgres.conninfo, dbname=name) for name in ("postgres", "template1")]
        names = list[str]()
        for one in both:
            with opened(TargetRequest(dsn=one)) as target:
                names.append(target.name)
        listed = places.ensure(places.data_dir()) / ALLOWED
        listed.write_text("".join(f"{name}\n" for name in names))
        listed.chmod(0o600)
        text = PLAN.replace("SERVER", json.dumps(both[0])) + f"target = {json.dumps(both[1])}\n"
        with pytest.raises(UsageError, match="are one server"):
            check_servers(parse_plan(text, source="plan.toml", folder=tmp_path))
        check_servers(parse_plan(text.replace(json.dumps(both[1]), json.dumps(both[0])), folder=tmp_path))
    finally:
        other.destroy()


@pytest.mark.night("unit/studies/test_scale_servers.py::test_runs_of_all_servers_are_interleaved_each_on_its_own")
def test_each_level_runs_on_its_own_server(server_home: Path, pgdyno_home: Path, tmp_path: Path) -> None:
    other = Sandbox.open_or_create("scaled", root=server_home)
    try:
        other.start()
        server, plan = other.target().postgres, tmp_path / "plan.toml"
        before = server.fetch(DATABASES)
        plan.write_text(PLAN.replace("SERVER", json.dumps(server.conninfo)))
        words = [str(plan), "--apply", "--yes", "--json", "--foreign-cpu", "10000", "--store", str(tmp_path / "s.db")]
        refused = CliRunner().invoke(command, words, standalone_mode=False)
        assert isinstance(refused.exception, EnvironmentUnsuitable)
        with opened(TargetRequest(dsn=server.conninfo)) as target:
            name = target.name
        listed = places.ensure(places.data_dir()) / ALLOWED
        listed.write_text(f"{name}\n")
        listed.chmod(0o600)
        killed = subprocess.Popen(
            [sys.executable, "-m", "pgdyno", "scale", *words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ),
        )  # fmt: skip
        until = time.monotonic() + WAIT_S
        while not (begun := of_the_server(tmp_path / "s.db", name)):
            assert killed.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        more = ["--resume", begun, *words[1:]]
        done = CliRunner().invoke(command, [one for one in more if one != "--apply"], standalone_mode=False)
        assert done.exception is None, done.exception
        assert server.fetch(DATABASES) == before
        with Store.open(tmp_path / "s.db") as store:
            result = store.study(json.loads(done.stdout)["study"]).told(ScaleResult)
            assert result is not None
            half, whole = result.levels
            part = store.study(half.study)
            assert part.id == begun, "both went on"
            assert len(store.studies()) == 2
            assert (part.kind, part.state, part.target) == (StudyKind.SCALE, StudyState.COMPLETE, name)
            assert len(store.trials(part.id)) >= 4
            assert (half.target, half.environment, whole.study) == (name, part.environment, "")
            assert whole.target != name
            assert half.cpus == whole.cpus
            assert half.cpus, "both are of this host"
            assert {*half.qualified} <= {one.id for one in store.trials(part.id)}
    finally:
        other.destroy()


@pytest.mark.night(
    "unit/studies/test_scale_servers.py"
    "::test_a_server_of_another_host_is_reached_by_ssh_and_told_from_one_of_the_same_name"
)
def test_the_path_length_of_a_level_on_another_host_is_known(
    debian: Target, pgdyno_home: Path, tmp_path: Path, sshd: Sshd
) -> None:
    dsn, plan = debian.postgres.conninfo, tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("SERVER", f"{json.dumps(dsn)}\nhost = {json.dumps(sshd.url)}"))
    with opened(TargetRequest(dsn=dsn, host=sshd.url)) as target:
        name = target.name
    listed = places.ensure(places.data_dir()) / ALLOWED
    listed.write_text(f"{name}\n")
    listed.chmod(0o600)
    words = [str(plan), "--apply", "--yes", "--json", "--foreign-cpu", "10000", "--store", str(tmp_path / "s.db")]
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert done.exception is None, done.exception
    with Store.open(tmp_path / "s.db") as store:
        result = store.study(json.loads(done.stdout)["study"]).told(ScaleResult)
    assert result is not None
    half, whole = result.levels
    assert (half.target, half.cpus) == (name, whole.cpus)
    assert half.path_s, "the CPU of a server on another host is counted there"
