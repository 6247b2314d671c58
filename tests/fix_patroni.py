"""A fixture that gives a real Patroni cluster: etcd and two nodes with PostgreSQL 15 on loopback, in a folder of ours.

Everything runs as an unprivileged user and is ended by its own process numbers. Where Debian's packages `patroni`,
`etcd-server` and `postgresql-15` are not installed, the tests are skipped with that reason.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fix_postgres import DEBIAN_15, public_dir
from free_ports import free_ports
from pgdyno.errors import PgdynoError
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import is_role_bound, read_settings

log = logging.getLogger(__name__)
NODES = ("alpha", "beta")
USER, PASSWORD = "pgdyno", "for-the-api"
PROGRAMS = ("/usr/bin/patroni", "/usr/bin/etcd", str(DEBIAN_15 / "postgres"))
BASE_SETTINGS = {
    "work_mem": "5MB",
    "shared_buffers": "24MB",
    "max_connections": 40,
    "fsync": "off",
    "shared_preload_libraries": "pg_stat_statements",
}
_READY_S, _STUCK_S = 120.0, 60.0
_SWITCHES = 3
_OFTEN = (
    "no action. ",
    "Lock owner: ",
    "accepting connections",
    "rejecting connections",
    "Latest checkpoint's ",
    " setting: ",
)


@dataclass
class PatroniCluster:
    """The running processes and how to reach them."""

    folder: Path
    etcd: str = ""
    api: dict[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    broken: str = ""
    """Why a test found the cluster not whole: the next ones fail at once."""

    @property
    def auth_file(self) -> Path:
        """Return the file with the API's credentials."""
        return self.folder / "auth"

    @property
    def conninfo(self) -> str:
        """Return what names role and database, without a host."""
        return "user=postgres dbname=postgres"

    def node(self, name: str) -> Postgres:
        """Return one node, whatever its role."""
        return Postgres(make_conninfo(self.conninfo, host="127.0.0.1", port=self.ports[name]))

    def show(self, setting: str) -> dict[str, str]:
        """Return a setting of every node, as SHOW prints it."""
        rows = {name: self.node(name).fetch("SELECT current_setting(%s) AS value", [setting]) for name in NODES}
        return {name: str(row[0]["value"]) for name, row in rows.items()}

    def ask(self, path: str, method: str = "GET", body: object = None, *, of: str = "") -> object:
        """Ask the API of one node, or of the first that answers."""
        token = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        data = None if body is None else json.dumps(body).encode()
        for url in [self.api[of]] if of else self.api.values():
            request = urllib.request.Request(f"{url}{path}", data, {"Authorization": f"Basic {token}"}, method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    text = answer.read().decode()
            except (OSError, urllib.error.HTTPError):
                continue
            return json.loads(text) if text.startswith("{") else text
        return {}

    def document(self) -> object:
        """Return the dynamic configuration from the store: GET /config may be one loop old.

        A node of a cluster that is busy may refuse one question: it is asked again.
        """
        found: list[object] = []

        def is_told() -> bool:
            found.append(self.ask("/config", "PATCH", {"nothing": None}))
            return isinstance(found[-1], dict) and bool(found[-1])

        until(is_told, lambda: f"no node tells the document: {found[-1]}\n{self.log_tails()}")
        return found[-1]

    def written(self) -> dict[str, set[tuple[str, str]]]:
        """Return what each node's configuration file sets, but for what goes with the node's role."""
        found = {}
        for name in NODES:
            with self.node(name).connect() as connection:
                roles = {one for one, state in read_settings(connection, label=name).items() if is_role_bound(state)}
                rows = connection.execute("SELECT name, setting FROM pg_file_settings").fetchall()
            found[name] = {(str(row["name"]), str(row["setting"])) for row in rows if row["name"] not in roles}
        return found

    def roles(self) -> dict[str, str]:
        """Return each member's role, for those that run."""
        answer = self.ask("/cluster")
        members = answer.get("members", []) if isinstance(answer, dict) else []
        return {member["name"]: member["role"] for member in members if member["state"] in ("running", "streaming")}

    def has_forgotten(self, name: str) -> bool:
        """Tell whether the members are told and a node is none of them."""
        answer = self.ask("/cluster")
        members = answer.get("members", []) if isinstance(answer, dict) else []
        return bool(members) and all(member["name"] != name for member in members)

    @property
    def leader(self) -> str:
        """Return the name of the leader, empty between two."""
        return next((name for name, role in self.roles().items() if role == "leader"), "")

    def is_whole(self) -> bool:
        """Tell whether one node leads, the other follows, both take sessions and a standby is attached."""
        roles = self.roles()
        if sorted(roles.values()) != ["leader", "replica"]:
            return False
        leader = next(name for name, role in roles.items() if role == "leader")
        try:
            recovering = {name: self.node(name).fetch("SELECT pg_is_in_recovery() AS r")[0]["r"] for name in NODES}
            attached = self.node(leader).fetch("SELECT 1 AS one FROM pg_stat_replication WHERE state='streaming'")
        except PgdynoError:
            return False
        return recovering[leader] is False and sum(map(bool, recovering.values())) == 1 and bool(attached)

    def wait_whole(self) -> None:
        """Wait until the cluster is whole.

        A demoted leader of Patroni 3.0 was seen to be "starting" for ever after a failover on a busy machine. It is
        copied anew then, as an operator would do: no test here is about that.
        """
        if self.broken:
            pytest.fail(f"an earlier test left it so: {self.broken.splitlines()[0]}")
        if not is_reached(self.is_whole, _STUCK_S) and (leader := self.leader):
            other = next(name for name in NODES if name != leader)
            log.warning("%s is copied anew: %s\n%s", other, self.ask("/cluster"), self.log_tails())
            self.ask("/reinitialize", "POST", {"force": True}, of=other)
        until(self.is_whole, self._not_whole)

    def _not_whole(self) -> str:
        self.broken = f"the cluster is not whole: {self.ask('/cluster')}\n{self.log_tails()}"
        return self.broken

    def switch_over(self) -> None:
        """Make the other node the leader and wait for it; ask again when the nodes were not ready for it."""
        self.wait_whole()
        before = self.leader
        other = next(name for name in NODES if name != before)
        for _ in range(_SWITCHES):
            answer = self.ask("/switchover", "POST", {"leader": before, "candidate": other})
            if is_reached(lambda: self.leader == other, _READY_S / _SWITCHES):
                break
            log.warning("no switchover yet: %s", answer)
        until(lambda: self.leader == other, lambda: f"no switchover: {self.ask('/cluster')}")
        self.wait_whole()

    def crash_leader(self) -> None:
        """Kill the leader's postmaster; Patroni starts it again or promotes the other node. Wait for either."""
        pid = (self.folder / "own" / self.leader / "postmaster.pid").read_text().split()[0]
        os.kill(int(pid), signal.SIGKILL)
        self.wait_whole()

    def end_standby(self) -> str:
        """End Patroni, and PostgreSQL with it, on the node that follows; return its name when the cluster forgot it."""
        name = next(name for name in NODES if name != self.leader)
        end_process(self.processes[name])
        until(lambda: self.has_forgotten(name), lambda: f"{name} is still a member: {self.ask('/cluster')}")
        return name

    def start_node(self, name: str) -> None:
        """Start Patroni on a node and wait until the cluster is whole."""
        spawn(self, name, ["/usr/bin/patroni", str(self.folder / f"{name}.json")])
        self.wait_whole()

    def log_tails(self) -> str:
        """Return the end of every log, for a failure's message, without what Patroni repeats in every loop."""
        found = []
        for log in sorted(self.folder.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()
            telling = [line for line in lines if not any(often in line for often in _OFTEN)]
            found.append("\n  ".join([f"{log.name}:", *telling[-40:], *lines[-3:]]))
        return "\n".join(found)


def until(condition: Callable[[], bool], message: Callable[[], str], patience_s: float = _READY_S) -> None:
    """Wait for a state; fail with the message when it is not reached."""
    if not is_reached(condition, patience_s):
        pytest.fail(message())


def is_reached(condition: Callable[[], bool], patience_s: float) -> bool:
    """Wait for a state; tell whether it was reached."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


@pytest.fixture(scope="session")
def running_patroni() -> Iterator[PatroniCluster]:
    """A cluster of this session; use `patroni`, which sees that each test finds and leaves it whole."""
    missing = [program for program in PROGRAMS if not Path(program).exists()]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = public_dir()
    cluster = PatroniCluster(folder)
    try:
        _start(cluster)
        cluster.wait_whole()
        yield cluster
    finally:
        for process in reversed(cluster.processes.values()):
            end_process(process)
        shutil.rmtree(folder)


@pytest.fixture
def patroni(running_patroni: PatroniCluster) -> Iterator[PatroniCluster]:
    """The whole cluster; a test that leaves another dynamic configuration behind fails.

    A node writes its file up to a loop later than the document changes, and one line more moves the numbers of all the
    others: the next test starts when both files are again what they were.
    """
    running_patroni.wait_whole()
    before, files = running_patroni.document(), running_patroni.written()
    yield running_patroni
    assert running_patroni.document() == before
    running_patroni.wait_whole()
    until(
        lambda: running_patroni.written() == files,
        lambda: (
            f"the nodes' files are not as before: {files} {running_patroni.written()}\n{running_patroni.log_tails()}"
        ),
    )


def _start(cluster: PatroniCluster) -> None:
    client, peer, *ports = free_ports(2 + 2 * len(NODES))
    cluster.etcd = f"127.0.0.1:{client}"
    for index, name in enumerate(NODES):
        cluster.api[name] = f"http://127.0.0.1:{ports[2 * index]}"
        cluster.ports[name] = ports[2 * index + 1]
    cluster.auth_file.write_text(f"{USER}:{PASSWORD}\n")
    cluster.auth_file.chmod(0o600)
    own = cluster.folder / "own"
    own.mkdir()
    if os.geteuid() == 0:
        shutil.chown(own, "postgres")
    spawn(cluster, "etcd", _etcd_command(cluster.etcd, f"http://127.0.0.1:{peer}", own / "etcd"))
    for name in NODES:
        config = cluster.folder / f"{name}.json"  # YAML is a superset of JSON
        config.write_text(json.dumps(_node_config(cluster, name, own)))
        config.chmod(0o644)
        spawn(cluster, name, ["/usr/bin/patroni", str(config)])


def _etcd_command(client: str, peer: str, data: Path) -> list[str]:
    words = {
        "--listen-client-urls": f"http://{client}",
        "--advertise-client-urls": f"http://{client}",
        "--listen-peer-urls": peer,
        "--initial-advertise-peer-urls": peer,
        "--initial-cluster": f"default={peer}",
        "--data-dir": str(data),
    }
    return ["/usr/bin/etcd", *(word for pair in words.items() for word in pair), "--unsafe-no-fsync"]


def _node_config(cluster: PatroniCluster, name: str, own: Path) -> dict[str, object]:
    address = f"127.0.0.1:{cluster.ports[name]}"
    rest = cluster.api[name].removeprefix("http://")
    dynamic = {
        "ttl": 20,
        "loop_wait": 1,
        "retry_timeout": 8,  # a leader that does not reach etcd for so long demotes itself: a busy machine is no reason
        "maximum_lag_on_failover": 1 << 30,
        "postgresql": {"use_pg_rewind": True, "parameters": BASE_SETTINGS},
    }
    return {
        "scope": "lab",
        "name": name,
        "restapi": {
            "listen": rest,
            "connect_address": rest,
            "authentication": {"username": USER, "password": PASSWORD},
        },
        "etcd3": {"host": cluster.etcd},
        "bootstrap": {"dcs": dynamic, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, "no-sync"]},
        "postgresql": {
            "listen": address,
            "connect_address": address,
            "data_dir": str(own / name),
            "bin_dir": str(DEBIAN_15),
            "pgpass": str(own / f"{name}.pgpass"),
            "parameters": {"unix_socket_directories": ""},
            "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
            "authentication": {
                "superuser": {"username": "postgres"},
                "replication": {"username": "replicator", "password": "of-the-lab"},
            },
        },
    }


def spawn(cluster: PatroniCluster, name: str, argv: list[str]) -> None:
    """Start one process of the cluster, as user postgres when we are root; its output goes to NAME.log."""
    account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cluster.folder), "LC_ALL": "C"}
    with (cluster.folder / f"{name}.log").open("ab") as log:
        cluster.processes[name] = subprocess.Popen(
            argv,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=environment,
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End one process of the cluster; Patroni stops its PostgreSQL first."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
