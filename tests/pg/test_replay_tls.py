"""A replay's sessions are encrypted and check the server as libpq would, whichever way that is said."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine_tapes import connect, leave, run_tape, send, write_tape
from fix_postgres import find_build, public_dir
from locked_server import PASSWORD, LockedServer, locked_server
from pgdyno.owner.account import Account
from pgdyno.replay.target_facts import end_point_of
from pgdyno.server.postgres import Postgres
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.plan import EndPoint, EnginePlan, Login
from pgdyno.trace.engines import PYTHON

pytestmark = pytest.mark.pg
IS_SECURED = "SELECT 1 / ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


@dataclass(frozen=True)
class Secured:
    """A server that speaks TLS, the root of its certificate, and another one."""

    server: LockedServer
    root: Path
    other: Path


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that is its own root; return it and its key."""
    made, key = folder / f"{name}.crt", folder / f"{name}.key"
    words = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-newkey", "rsa:2048"]
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", *words, "-out", str(made), "-keyout", str(key)],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with locked_server(find_build("debian-15"), public_dir()) as server:
        root, key = certificate(server.data, "server")
        other, _ = certificate(server.data, "other")
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(key, account.pw_uid, account.pw_gid)
        key.chmod(0o600)
        for setting in (f"ssl_cert_file = '{root}'", f"ssl_key_file = '{key}'", "ssl = on"):
            server.admin.execute(f"ALTER SYSTEM SET {setting}")  # type: ignore[arg-type]  # a text of ours
        server.control.restart()
        yield Secured(server, root, other)


def found(dsn: str) -> EndPoint:
    return end_point_of(SimpleNamespace(postgres=Postgres(dsn)))  # type: ignore[arg-type]  # of it nothing else is asked


def test_sessions_are_checked_by_what_the_target_says_or_the_environment(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn, root = secured.server.dsn, str(secured.root)
    monkeypatch.setenv("HOME", str(tmp_path))  # where no root is yet, whoever runs this
    assert (found(dsn).tls, found(dsn).root_certificate) == ("require", None)
    full = found(f"{dsn} sslmode=verify-full sslrootcert={root}")
    assert (full.tls, full.root_certificate) == ("verify-full", root)
    assert found(f"{dsn} sslmode=disable").tls == "disable"
    monkeypatch.setenv("PGSSLMODE", "verify-ca")
    monkeypatch.setenv("PGSSLROOTCERT", root)
    said = found(dsn)
    assert (said.tls, said.root_certificate) == ("verify-ca", root)
    monkeypatch.delenv("PGSSLROOTCERT")
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").write_bytes(secured.root.read_bytes())
    assert found(dsn).root_certificate == str(tmp_path / ".postgresql" / "root.crt")
    assert found(f"{dsn} sslrootcert=''").root_certificate == str(tmp_path / ".postgresql" / "root.crt")
    assert found(f"{dsn} sslmode=require sslrootcert={tmp_path}/none.crt").root_certificate is None
    monkeypatch.delenv("PGSSLMODE")
    monkeypatch.setenv("HOME", "/" + 300 * "x")
    assert found(dsn).root_certificate is None, "a home that cannot be looked at is libpq's none, and no traceback"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another account")
def test_roots_are_read_while_the_engine_may(secured: Secured, tmp_path: Path) -> None:
    root = tmp_path / "root.crt"
    root.write_bytes(secured.root.read_bytes())
    root.chmod(0o600)
    tmp_path.chmod(0o700)
    write_tape(tmp_path / "x.tape", [connect(user="tuner", database="postgres"), leave(1)])
    end_point = EndPoint("127.0.0.1", secured.server.port, "verify-full", str(root))
    account = Account.of_user(pwd.getpwnam("nobody").pw_uid).numbers
    plan = EnginePlan(-1, -1, end_point, Login({"tuner": PASSWORD}), starts_in_s=0.1, account=account)
    tally, _ = run_tape(PYTHON, plan, tmp_path / "x.tape")
    assert (tally.reasons, tally.not_opened) == ({}, 0)


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_replay_is_encrypted_and_refuses_a_server_of_another_root(
    secured: Secured, tmp_path: Path, mode: str
) -> None:
    write_tape(
        tmp_path / "x.tape", [connect(user="tuner", database="postgres"), send(1, wire.query(IS_SECURED)), leave(2)]
    )
    reasons = {}
    for root in (secured.root, secured.other):
        end_point = EndPoint("127.0.0.1", secured.server.port, mode, str(root))
        plan = EnginePlan(-1, -1, end_point, Login({"tuner": PASSWORD}), starts_in_s=0.1)
        tally, _ = run_tape(PYTHON, plan, tmp_path / "x.tape")
        reasons[root] = tally.reasons
        assert tally.errors == (0 if root == secured.root else 1)
    assert reasons[secured.root] == {}
    (why,) = reasons[secured.other]
    assert "certificate verify failed" in why
