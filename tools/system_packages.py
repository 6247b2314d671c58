"""Install the programs that tests drive and that are missing: PostgreSQL, PgBouncer, Patroni, sshd, Chromium, Rust.

Runs before any dependency of the project is there: standard library only. Needs root and apt; elsewhere it says what
is missing, and the tests that need it are skipped with that reason. Debian's own cluster is not created: tests make
theirs, as they start etcd, Patroni, PgBouncer and sshd of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import build_engine

PROGRAMS = {
    "chromium": "chromium",
    "/usr/lib/postgresql/15/bin/postgres": "postgresql-15",
    "/usr/bin/pg_createcluster": "postgresql-common",
    "/usr/bin/patroni": "patroni",
    "/usr/bin/etcd": "etcd-server",
    "/usr/sbin/pgbouncer": "pgbouncer",
    "/usr/sbin/sshd": "openssh-server",
    "/usr/bin/sudo": "sudo",
}
_RUST = "cargo"
_RUST_FOR_BROWSERS = "cargo-web"
"""Debian 12 has a compiler of today under this name; its plain one is too old."""


def main() -> None:
    """Install what is missing, or say why not."""
    missing = sorted({package for program, package in PROGRAMS.items() if not _is_there(program)})
    if build_engine.toolchain() is None:
        missing.append(_RUST)
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"not installed, and only root with apt can: {', '.join(missing)}; tests that need them are skipped")
        return
    policy = Path("/etc/postgresql-common/createcluster.d")
    policy.mkdir(parents=True, exist_ok=True)
    no_cluster = policy / "pgdyno-tests.conf"
    no_cluster.write_text("create_main_cluster = false\n")
    with _no_service_starts():
        try:
            _install(missing)
        finally:
            no_cluster.unlink()
    if "openssh-server" in missing:
        _disable_sshd()


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keep packages from starting their services: Debian's policy-rc.d, unless there is one."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def _install(missing: list[str]) -> None:
    if _apt("update", "--quiet"):
        known = subprocess.run(["apt-cache", "show", _RUST_FOR_BROWSERS], check=False, capture_output=True)
        rust = _RUST_FOR_BROWSERS if known.returncode == 0 else _RUST
        names = (rust if name == _RUST else name for name in missing)
        _apt("install", "--yes", "--quiet", "--no-install-recommends", *names)


def _apt(*words: str) -> bool:
    command = ["apt-get", *words]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        print(f"`{' '.join(command)}` failed with {done.returncode}; tests that need it are skipped")
    return done.returncode == 0


def _disable_sshd() -> None:
    """Keep it from being started at the next boot either: nobody has asked for an open port."""
    if shutil.which("systemctl") is not None:
        quiet = subprocess.DEVNULL
        disable = ["systemctl", "disable", "ssh.service", "ssh.socket"]
        subprocess.run(disable, check=False, stdout=quiet, stderr=quiet)


def _is_there(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None


if __name__ == "__main__":
    main()
