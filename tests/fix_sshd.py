"""A real sshd on a port of the loopback, with keys and known hosts of its own: nothing of the machine's ssh is used.

The remote user is `postgres`, who has no rights but those of a server's owner; what pgdyno keeps on the host goes
below `Sshd.home` and not into his home.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from compiled_agent import send_bytecode
from fix_postgres import NIGHT, public_dir
from free_ports import free_ports
from pgdyno.remote import payload
from templates import FOLDER, copied

SSHD = Path("/usr/sbin/sshd")
USER = "postgres"
_DAEMON = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM yes
PasswordAuthentication no
KexAlgorithms curve25519-sha256
SetEnv PGDYNO_HOME={home} {more}
"""
_CLIENT = """
Host *
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""


@dataclass(frozen=True)
class Sshd:
    """A running sshd. `home` is the remote user's PGDYNO_HOME, `folder` holds the keys and both configurations."""

    port: int
    folder: Path
    home: Path
    user: str = USER

    @property
    def url(self) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}"

    @property
    def undo_root(self) -> Path:
        return self.home / "state" / "undo"

    def client(self, *, known: bool = True) -> str:
        """Return a PGDYNO_SSH that uses our keys; without `known`, one that has never seen this host."""
        path = self.folder / ("client" if known else "stranger")
        hosts = self.folder / "known_hosts" if known else Path(os.devnull)
        path.write_text(_CLIENT.format(folder=self.folder, known=hosts))
        return f"ssh -F {path}"


def start_sshd(folder: Path, home: Path, more: str = "PGDYNO_TEST=1") -> tuple[Sshd, subprocess.Popen[bytes]]:
    """Start one and wait until it takes connections; `more` holds variables of its users."""
    for name in ("host_key", "user_key"):
        if not (folder / name).exists():
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(keygen, check=True)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    (folder / "authorized_keys").chmod(0o644)
    (port,) = free_ports(1)
    key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}")
    config = folder / "sshd_config"
    config.write_text(_DAEMON.format(port=port, folder=folder, home=home, more=more))
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd's own place, which its service makes elsewhere
    with (folder / "sshd.log").open("ab") as log:
        daemon = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(config)], stderr=log, start_new_session=True)
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return Sshd(port, folder, home), daemon
        except OSError:
            assert daemon.poll() is None, (folder / "sshd.log").read_text()
            assert time.monotonic() < deadline, "sshd did not come up"
            time.sleep(0.05)


@pytest.fixture
def bare_sshd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A running sshd whose user is `postgres`, and a PGDYNO_SSH that may log in there. No agent was there before."""
    if os.geteuid() != 0 or not SSHD.exists():
        pytest.skip("no root with an sshd: apt install openssh-server")
    folder = public_dir()
    home = folder / "home"
    home.mkdir(mode=0o700)
    shutil.chown(home, USER, pwd.getpwnam(USER).pw_gid)
    made, daemon = start_sshd(folder, home)
    monkeypatch.setenv("PGDYNO_SSH", made.client())
    if not NIGHT:
        send_bytecode(monkeypatch)
    try:
        yield made
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
        shutil.rmtree(folder)
        payload.build.cache_clear()


@pytest.fixture
def sshd(bare_sshd: Sshd) -> Iterator[Sshd]:
    """A running sshd of a host that has had our agent before: what an earlier test sent lies in its place.

    To look for it in vain and to send it costs a third of a CPU second: `test_remote_refused.py` shows that. A host
    whose user is root has `bare_sshd`: no agent runs from a folder of another account.
    """
    kept, cache = Path(os.environ[FOLDER]) / "agent", bare_sshd.home / "cache"
    if kept.is_dir():
        cache.mkdir(mode=0o700)
        shutil.chown(cache, USER, pwd.getpwnam(USER).pw_gid)
        copied(kept, cache / "agent")
    yield bare_sshd
    if not kept.is_dir() and (cache / "agent").is_dir():
        partial = kept.with_suffix(f".{os.getpid()}")
        copied(cache / "agent", partial)
        with suppress(OSError):  # another worker was first
            partial.rename(kept)
