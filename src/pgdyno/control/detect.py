"""Find out how a server of this host is restarted, from who started it. Where that is not sure, say what was seen."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.control.pg_ctl import PgCtl, options_of
from pgdyno.control.pg_ctlcluster import PgCtlCluster
from pgdyno.control.protocol import Control
from pgdyno.control.systemd import SystemdControl
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux import processes
from pgdyno.linux.small_files import read_leniently
from pgdyno.outside.files import is_file
from pgdyno.owner.account import owner_of
from pgdyno.owner.hands import hands_of
from pgdyno.owner.runner import Runner
from pgdyno.server import binaries
from pgdyno.server.postgres import Postgres

_DEBIAN = re.compile(r"/etc/postgresql/(?P<version>[0-9.]+)/(?P<cluster>[^/]+)/postgresql\.conf")
_UNIT = re.compile(r"/([^/\n]+\.service)(?:/[^\n]*)?$", re.MULTILINE)
_PATRONI = "overwritten by Patroni"
Which = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Undetected:
    """Why no control fits for certain: what was seen, as a sentence without a full stop."""

    saw: str


@dataclass(frozen=True, slots=True)
class ServerSigns:
    """What there is to see of a local server. `cgroups` are the texts of /proc/PID/cgroup.

    `pid_namespace` and `own_pid_namespace` are the links in /proc/PID/ns. `owner` is the account of the data
    directory; `we_are_root` and `we_are_owner` say what we may do.
    """

    pid: int
    data_directory: Path
    config_file: str | None
    owner: str | None
    cgroups: str
    own_cgroups: str
    pid_namespace: str
    own_pid_namespace: str
    is_patroni: bool
    we_are_root: bool
    we_are_owner: bool


def find_control(
    runner: Runner, postgres: Postgres, signs: ServerSigns, bin_dir: Path | None, *, which: Which = shutil.which
) -> Control | Undetected:
    """Return the control of whoever started the server: systemd, Debian's pg_ctlcluster, else pg_ctl.

    Sure of systemd is only who sees that the unit's main process is the postmaster. `signs` are what was seen of the
    server, and `bin_dir` is the folder of its program, None where it cannot be seen. `which` returns a program's path,
    None where it is not installed. The control runs its programs by `runner`; systemd's uses `postgres` for what needs
    a session. Changes nothing.
    """
    refusal = foreign_hands(signs)
    if refusal is not None:
        return refusal
    unit = systemd_unit(signs.cgroups, signs.own_cgroups)
    if unit is not None:
        return _systemd(runner, postgres, signs, unit, which)
    if not signs.we_are_root and not signs.we_are_owner:
        return Undetected(f"the server belongs to {signs.owner or 'another account'}, and we are neither it nor root")
    log_file = stderr_of(signs.pid)
    debian = _DEBIAN.fullmatch(signs.config_file or "")
    if debian and which("pg_ctlcluster"):
        return PgCtlCluster(
            runner, debian["version"], debian["cluster"], signs.data_directory, log_file, user=signs.owner
        )
    if bin_dir is None or not is_file(bin_dir / "pg_ctl"):
        return Undetected(f"there is no pg_ctl beside the server's program ({bin_dir or 'its folder cannot be seen'})")
    try:
        options = options_at_start(signs.data_directory)
        env = binaries.find_build(runner, bin_dir, signs.owner).env
    except (EnvironmentUnsuitable, UsageError) as error:  # reading verbs need no restart
        return Undetected(f"{error.message} ({error.detail})" if error.detail else error.message)
    return PgCtl(
        runner=runner,
        bin_dir=bin_dir,
        data_directory=signs.data_directory,
        log_file=log_file or signs.data_directory / "pgdyno-server.log",
        user=signs.owner,
        options=options,
        env=env,
    )


def foreign_hands(signs: ServerSigns) -> Undetected | None:
    """Return why a server must not be restarted by any tool of this host, None when there is no such sign."""
    if signs.is_patroni:
        return Undetected(
            "Patroni writes the server's configuration and would start it again by itself: name its API with --patroni"
        )
    if signs.pid_namespace != signs.own_pid_namespace:
        return Undetected("the server runs in a container, whose own tool restarts it")
    if signs.pid == 1:
        return Undetected("the server is the first process of this container, which would end with it")
    return None


def read_signs(pid: int, data_directory: Path, config_file: str | None) -> ServerSigns:
    """Look at /proc, the data directory and who we are."""
    owner = owner_of(data_directory)
    own_namespace = _link(processes.PROC / "self" / "ns" / "pid") or ""
    return ServerSigns(
        pid=pid,
        data_directory=data_directory,
        config_file=config_file,
        owner=owner,
        cgroups=read_leniently(processes.PROC / str(pid) / "cgroup") or "",
        own_cgroups=read_leniently(processes.PROC / "self" / "cgroup") or "",
        # Of another user's process the link is hidden; such a server is refused for its owner anyway.
        pid_namespace=_link(processes.PROC / str(pid) / "ns" / "pid") or own_namespace,
        own_pid_namespace=own_namespace,
        is_patroni=config_file is not None and _PATRONI in _head(data_directory, Path(config_file)),
        we_are_root=os.geteuid() == 0,
        we_are_owner=owner is not None and pwd.getpwnam(owner).pw_uid == os.geteuid(),
    )


def systemd_unit(cgroups: str, own_cgroups: str) -> str | None:
    """Return the service that a process belongs to by its /proc/PID/cgroup, unless we belong to it ourselves."""
    found, own = _UNIT.search(cgroups), _UNIT.search(own_cgroups)
    if found is None or found[1].startswith("user@") or (own is not None and own[1] == found[1]):
        return None
    return found[1]


def start_options(text: str) -> tuple[str, ...]:
    """Return the options in postmaster.opts, which the server was started with, but for program and directory."""
    return options_of(shlex.split(text))


def options_at_start(data_directory: Path) -> tuple[str, ...]:
    """Return the options in the postmaster.opts of a data directory. Raises EnvironmentUnsuitable."""
    path = data_directory / "postmaster.opts"
    try:
        return start_options(hands_of(data_directory).read_text(path))
    except (OSError, ValueError) as error:  # a quotation that is not closed is no file of the server's
        words = error.strerror if isinstance(error, OSError) else None
        raise EnvironmentUnsuitable(
            f'"{path}" does not say how the server was started',
            detail=words or str(error),
            hint="Start the server once by its own tool, which writes the file, or name one: --restart-command.",
        ) from error


def stderr_of(pid: int) -> Path | None:
    """Return the file that the server's standard error goes to; None when that is no file."""
    try:
        path = (processes.PROC / str(pid) / "fd" / "2").readlink()
        return path if is_file(path) else None
    except OSError:
        return None


def _systemd(runner: Runner, postgres: Postgres, signs: ServerSigns, unit: str, which: Which) -> Control | Undetected:
    if which("systemctl") is None:
        return Undetected(f'the server belongs to unit "{unit}", and there is no systemctl here')
    try:
        main_pid = SystemdControl(runner, postgres, unit).state().main_pid
    except EnvironmentUnsuitable as error:
        said = error.detail or error.message
        return Undetected(f'the server belongs to unit "{unit}", and systemd does not answer: {said}')
    if main_pid != signs.pid:
        return Undetected(f'the server belongs to unit "{unit}", whose main process is {main_pid} and not the server')
    if signs.we_are_root or _may_sudo(runner, unit, which):
        return SystemdControl(runner, postgres, unit, signs.data_directory, sudo=not signs.we_are_root)
    return Undetected(f'the server is unit "{unit}", and only root or "sudo -n systemctl" may restart it')


def _may_sudo(runner: Runner, unit: str, which: Which) -> bool:
    if which("sudo") is None:
        return False
    argv = ["sudo", "-n", "-l", "systemctl", "--no-ask-password", "restart", unit]
    return runner.run(argv, timeout_s=30, check=False).returncode == 0


def _head(data_directory: Path, config_file: Path) -> str:
    """Return the beginning of a configuration file as the server's account reads it."""
    try:
        hands = hands_of(data_directory)
        return hands.read(hands.resolve(config_file), at_most=200).decode(errors="replace")
    except (OSError, EnvironmentUnsuitable):
        return ""


def _link(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except OSError:
        return None
