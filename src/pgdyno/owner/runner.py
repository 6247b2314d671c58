"""Run programs on the server's host: argument lists, never a shell, as another user and inside a cgroup if asked."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.owner import enter_cgroup, launch
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.owner.process_image import ProcessImage
from pgdyno.owner.programs import check_program


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended. `returncode` is negative when a signal ended it."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class Process:
    """A program that runs in the background, in a session of its own."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._popen.pid

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._popen.poll()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end and return the exit status. Raise EnvironmentUnsuitable when the time is over."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise EnvironmentUnsuitable(f"process {self.pid} did not end within {timeout_s:g} s") from error

    def terminate(self) -> None:
        """Send SIGTERM; do nothing when it has ended."""
        self._popen.terminate()

    def kill(self) -> None:
        """Send SIGKILL; do nothing when it has ended."""
        self._popen.kill()


class Runner(Protocol):
    """Runs programs on one host. `user` is an account's name.

    A program is given what the list of its `kind` names of our environment, and `env` beside, nothing else. Root runs
    nothing as root that another account could have changed; see `programs.check_program`.
    """

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path | None = None,
        timeout_s: float | None = None,
        check: bool = True,
        input_text: str | None = None,
        cgroups: Sequence[Path] = (),
        kind: ProgramKind = ProgramKind.PROGRAM,
        image: ProcessImage | None = None,
    ) -> Completed:
        """Run a program to its end and return its output.

        `argv` is the program, looked for in PATH where it has no slash, and its arguments. `env` comes on top of what
        `kind` lets through. `user` None keeps our account; `cwd` None is our folder, or / for another user.
        `input_text` is its stdin, None for an empty one. It may run for `timeout_s` seconds, None for as long as it
        takes, and is inside every one of `cgroups` (directories) before its first instruction.

        With an `image` it is as that process was: its account, environment and attributes, as far as our rights
        reach (see `process_image.py`); `env`, `user`, `cwd` and `input_text` are not for such a program.

        A server that the program leaves behind does not hold the call up. Raises EnvironmentUnsuitable when the
        program is missing, when the time is over (it is killed), or, with `check`, on an exit status other than 0.
        """

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path | None = None,
        stdout: Path,
        stderr: Path,
        cgroups: Sequence[Path] = (),
        kind: ProgramKind = ProgramKind.PROGRAM,
    ) -> Process:
        """Start a program in the background; both files are created or truncated by us, not by `user`.

        The files are `stdout` and `stderr`, where its output goes; `argv`, `env`, `cwd` and `kind` are as in `run`. The
        program is inside every one of `cgroups` (directories) before its first instruction. Ctrl-C in the terminal does
        not reach it: whoever starts it ends it. Raises EnvironmentUnsuitable when it is missing.
        """


class LocalRunner:
    """Runs programs on this machine."""

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path | None = None,
        timeout_s: float | None = None,
        check: bool = True,
        input_text: str | None = None,
        cgroups: Sequence[Path] = (),
        kind: ProgramKind = ProgramKind.PROGRAM,
        image: ProcessImage | None = None,
    ) -> Completed:
        """Run a program to its end and return its output; `check`, `image` and the others as in `Runner.run`."""
        command = argv
        if image is not None:
            command, input_text, cgroups = launch.command(argv), launch.instructions(image, cgroups), ()
            env, user, cwd = None, None, None
        # Files and not pipes: a daemon that the program leaves behind would keep a pipe open for ever.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as stdin:
            stdin.write((input_text or "").encode())
            stdin.seek(0)
            popen = _popen(command, env, user, cwd, stdin, out, err, cgroups, kind)
            try:
                popen.wait(timeout_s)
            except subprocess.TimeoutExpired as error:
                raise EnvironmentUnsuitable(
                    f'"{argv[0]}" did not end within {timeout_s:g} s', detail=_last_lines(_text(err))
                ) from error
            finally:
                _end(popen)
            completed = Completed(tuple(argv), popen.returncode, _text(out), _text(err))
        if check and completed.returncode != 0:
            raise command_failed(completed)
        return completed

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path | None = None,
        stdout: Path,
        stderr: Path,
        cgroups: Sequence[Path] = (),
        kind: ProgramKind = ProgramKind.PROGRAM,
    ) -> Process:
        """Start a program in the background; `cgroups` and the other arguments as in `Runner.start`."""
        with stdout.open("wb") as out, stderr.open("wb") as err, Path(os.devnull).open("rb") as stdin:
            return Process(_popen(argv, env, user, cwd, stdin, out, err, cgroups, kind))


def command_failed(completed: Completed) -> EnvironmentUnsuitable:
    """Return the error for a program that ended badly, with the last lines that it wrote as the detail."""
    status = completed.returncode
    how = f"was ended by signal {-status}" if status < 0 else f"failed with exit status {status}"
    return EnvironmentUnsuitable(
        f'"{completed.argv[0]}" {how}', detail=_last_lines(completed.stderr) or _last_lines(completed.stdout)
    )


def _popen(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    user: str | None,
    cwd: Path | None,
    stdin: IO[bytes],
    stdout: IO[bytes],
    stderr: IO[bytes],
    cgroups: Sequence[Path],
    kind: ProgramKind,
) -> subprocess.Popen[bytes]:
    account = _other_account(user)
    command = [str(word) for word in argv]
    if account is None and os.geteuid() == 0:
        command[0] = check_program(command[0], 0)
    if cgroups:
        if shutil.which(command[0]) is None:
            raise EnvironmentUnsuitable(f'program "{command[0]}" was not found')
        # The child joins its cgroups itself, then gives up its rights, so that no CPU time of it is missed.
        wrapper = [sys.executable, "-I", "-S", str(Path(enter_cgroup.__file__)), *map(str, cgroups)]
        command = [*wrapper, "--user", account.pw_name if account else "", "--", *command]
    switched = None if cgroups else account
    try:
        return subprocess.Popen(
            command,
            env=_environment(env, account, kind),
            cwd="/" if cwd is None and account is not None else cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            user=switched.pw_uid if switched else None,
            group=switched.pw_gid if switched else None,
            extra_groups=os.getgrouplist(switched.pw_name, switched.pw_gid) if switched else None,
        )
    except FileNotFoundError as error:
        raise EnvironmentUnsuitable(f'program "{error.filename or command[0]}" was not found') from error
    except PermissionError as error:
        if "/" not in command[0] and (closed := _closed_folders(command[0])):
            raise EnvironmentUnsuitable(
                f'program "{command[0]}" was not found',
                detail=f"These folders of PATH cannot be looked into: {', '.join(closed)}.",
            ) from error
        who = f'user "{account.pw_name}"' if account else "this user"
        raise EnvironmentUnsuitable(f'program "{command[0]}" cannot be run by {who}', detail=str(error)) from error


def _closed_folders(name: str) -> list[str]:
    """Return the folders of PATH that nobody lets us look into, empty where another one has a file of this name."""
    folders = os.get_exec_path()
    if any((Path(folder) / name).is_file() for folder in folders if os.access(folder, os.X_OK)):
        return []
    return [folder for folder in folders if not os.access(folder, os.X_OK) and not _is_missing(folder)]


def _is_missing(folder: str) -> bool:
    """Tell whether there is no such folder; where one above it is closed to us, that is not known."""
    try:
        Path(folder).stat()
    except PermissionError:
        return False
    except OSError:
        return True
    return False


def _other_account(user: str | None) -> pwd.struct_passwd | None:
    if user is None:
        return None
    try:
        account = pwd.getpwnam(user)
    except KeyError as error:
        raise EnvironmentUnsuitable(f'user "{user}" does not exist on this machine') from error
    if account.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise EnvironmentUnsuitable(
            f'programs cannot be run as user "{user}"',
            detail="Only root may become another user.",
            hint=f'Run pgdyno as root or as user "{user}".',
        )
    return account


def _environment(env: Mapping[str, str] | None, account: pwd.struct_passwd | None, kind: ProgramKind) -> dict[str, str]:
    merged = inherited(kind)
    if account is not None:
        merged |= {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
    return merged | dict(env or {})


def _end(popen: subprocess.Popen[bytes]) -> None:
    if popen.poll() is None:
        popen.kill()
        popen.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _last_lines(text: str) -> str | None:
    return "\n".join(text.strip().splitlines()[-8:]) or None
