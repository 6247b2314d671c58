"""One connection of the user's own ssh to a host, and everything that goes over it.

`ssh` itself is called, so the user's configuration, bastions (ProxyJump), keys, agents and known hosts apply. It is
never asked to prompt (BatchMode). All calls share one connection through a control socket in a private folder of
ours; its master ends by itself a minute after the last of us, also when we were killed.
`PGDYNO_SSH` replaces the program and adds options, as `GIT_SSH_COMMAND` does for git: `ssh -F other.conf`.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.owner.temporary import TemporaryFolder
from pgdyno.remote.address import HostAddress

CONNECT_S = 15
ALIVE_EVERY_S, ALIVE_MISSES = 5, 3
PERSIST_S = 60
TUNNEL = ".s.PGSQL."
"""How the sockets of tunnels are called: the port follows, as libpq looks for it."""
_LONGEST_SOCKET = 80
"""sun_path holds 108 bytes (unix(7)); ssh appends 17 to the control path while it binds."""
_SETTINGS = {
    "BatchMode": "yes",
    "ControlMaster": "auto",
    "ControlPersist": str(PERSIST_S),
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": str(ALIVE_EVERY_S),
    "ServerAliveCountMax": str(ALIVE_MISSES),
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "LogLevel": "ERROR",
}
_REASONS = (
    (
        "IDENTIFICATION HAS CHANGED",
        "the host key is not the one that is known",
        "Find out why before anything else: it may be another machine. Then correct known_hosts with ssh-keygen -R.",
    ),
    (
        "ost key verification failed",
        "its host key is not known",
        "Log in once by hand and compare the fingerprint: {login}",
    ),
    (
        "Permission denied",
        "it does not let us in",
        "Passwords are not asked for: load a key (ssh-add), or install one (ssh-copy-id), until this works: {login}",
    ),
    ("Could not resolve hostname", "its name is not known", "Check the name, or add it to ~/.ssh/config."),
    ("Connection refused", "nobody listens there", "Check the port: --host ssh://{host}:PORT. Try: {login}"),
    ("timed out", "it does not answer", "Check the way there (a bastion is ProxyJump in ~/.ssh/config). Try: {login}"),
    ("No route to host", "there is no route to it", "Check the network. Try: {login}"),
)


MOST_OUTPUT, MOST_ERRORS = 1 << 20, 1 << 16
"""Bytes of what one short program over there says."""
_MOST_WRITTEN = 64 << 20
"""Bytes that a host can make ssh write into files here; more ends it (SIGXFSZ)."""


@dataclass(frozen=True, slots=True)
class RemoteOutput:
    """What a program on the host wrote, and its exit status."""

    status: int
    output: bytes
    errors: str


class SshConnection:
    """A host and the private folder of the sockets that lead there."""

    def __init__(
        self, address: HostAddress, folder: Path, program: Sequence[str], made: TemporaryFolder | None = None
    ) -> None:
        self.address = address
        self.folder = folder
        self._made = made
        self._program = list(program)

    @classmethod
    def open(cls, address: HostAddress, environment: Mapping[str, str] = os.environ) -> SshConnection:
        """Make the private folder; nothing is connected yet. Raises EnvironmentUnsuitable when there is no ssh."""
        program = shlex.split(environment.get("PGDYNO_SSH", "")) or ["ssh"]
        if shutil.which(program[0]) is None:
            raise EnvironmentUnsuitable(f'program "{program[0]}" was not found', hint="Install the OpenSSH client.")
        folder = TemporaryFolder("ssh")
        if len(str(folder.path)) > _LONGEST_SOCKET:
            folder.remove()
            raise EnvironmentUnsuitable(
                f'folder "{folder.path.parent}" has too long a name for a socket in it',
                hint="Set TMPDIR to a shorter one.",
            )
        return cls(address, folder.path, program, folder)

    def argv(self, *options: str, command: Sequence[str] = ()) -> list[str]:
        """Return the argument list that runs a command on the host, quoted for the shell that reads it there."""
        settings = [word for name, value in _SETTINGS.items() for word in ("-o", f"{name}={value}")]
        control = ["-o", f"ControlPath={self.folder / 'master'}"]
        remote = [shlex.join(command)] if command else []
        return [*self._program, "-T", *settings, *control, *options, *self.address.words(), *remote]

    def run(self, command: Sequence[str], *, data: bytes = b"", timeout_s: float = 60.0) -> RemoteOutput:
        """Run a program on the host to its end. Raises ConnectError when the host cannot be reached."""
        # Files and not pipes: the master, which the first call leaves behind, would hold a pipe open.
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write(data)
            stdin.seek(0)
            try:
                with subprocess.Popen(
                    self.argv(command=command),
                    env=inherited(ProgramKind.PERSONAL),
                    stdin=stdin,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                ) as process:
                    _bound(process)
                    try:
                        status = process.wait(timeout_s)
                    finally:
                        process.kill()  # nothing where it has ended
            except subprocess.TimeoutExpired as error:
                raise ConnectError(f"{self.address} did not answer within {timeout_s:g} s") from error
            out.seek(0)
            err.seek(0)
            words = err.read(MOST_ERRORS).decode(errors="replace").strip()
            answer = RemoteOutput(status, out.read(MOST_OUTPUT), words)
        if answer.status == 255:  # ssh's own exit status: ssh(1)
            raise self.refused(answer.errors)
        return answer

    def start(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a program on the host with pipes to its stdin and stdout; what it logs goes to a file here.

        In a session of its own: a Ctrl-C in our terminal must not cut the line by which we restore the server.
        """
        with open(log, "wb", opener=_private) as errors:
            process = subprocess.Popen(
                self.argv(command=command),
                env=inherited(ProgramKind.PERSONAL),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        _bound(process)
        return process

    def new_log(self) -> Path:
        """Return a name in the private folder for what the next program logs."""
        return self.folder / f"{len(list(self.folder.glob('*.log'))) + 1}.log"

    def forward(self, local: Path, remote: str) -> None:
        """Make a socket here that leads to a socket's path or a HOST:PORT there, as long as the connection lasts."""
        local.unlink(missing_ok=True)
        settings = ["-o", f"ControlPath={self.folder / 'master'}", "-O", "forward", "-L", f"{local}:{remote}"]
        argv = [*self._program, *settings, *self.address.words()]
        done = subprocess.run(
            argv, env=inherited(ProgramKind.PERSONAL), capture_output=True, text=True, timeout=30, check=False
        )
        if done.returncode != 0:
            raise self.refused(done.stderr.strip())

    def admit(self, gid: int) -> None:
        """Let a group of accounts of this machine use the tunnels, and see nothing else in the folder. As root."""
        os.chown(self.folder, -1, gid)
        self.folder.chmod(0o710)
        for tunnel in self.folder.glob(f"{TUNNEL}*"):
            os.chown(tunnel, -1, gid)
            tunnel.chmod(0o660)

    def close(self) -> None:
        """End the connection and remove the folder. Idempotent."""
        if self.folder.is_dir():
            argv = [*self._program, "-o", f"ControlPath={self.folder / 'master'}", "-O", "exit", *self.address.words()]
            subprocess.run(argv, env=inherited(ProgramKind.PERSONAL), capture_output=True, timeout=30, check=False)
            if self._made is not None:
                self._made.remove()

    def refused(self, text: str) -> ConnectError:
        """Return the error for what ssh wrote before it gave up."""
        host = self.address.host
        login = shlex.join([*self._program, *(word for word in self.address.words() if word != "--")])
        for words, reason, hint in _REASONS:
            if words in text:
                return ConnectError(
                    f"cannot reach {self.address}: {reason}", detail=text, hint=hint.format(login=login, host=host)
                )
        return ConnectError(f"cannot reach {self.address}", detail=text or None, hint=f"Try it by hand: {login}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _bound(process: subprocess.Popen[bytes]) -> None:
    """Bound the files that a program can write: its words are another host's, and the disk is ours."""
    with suppress(OSError, ValueError):  # it has ended, or its own limit is lower
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_MOST_WRITTEN, _MOST_WRITTEN))
