"""Programs that move data: found by version, run as one account, ended with us, their words kept in a file.

As root they run as the account of the load, never as root: a server is a stranger, and so is what it answers.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.migration.mover import MovePlace
from pgdyno.outside.files import is_file, open_file
from pgdyno.owner.account import Account
from pgdyno.owner.inherited import ProgramKind
from pgdyno.owner.programs import check_program
from pgdyno.owner.runner import LocalRunner
from pgdyno.server.postgres import redact
from pgdyno.workloads.driver_process import DriverProcess

LOOK_S = 0.05
_LAST = 400
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_DEBIAN = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class ClientPrograms:
    """The folder that the programs are taken from, and their major version."""

    folder: Path
    major: int

    def path(self, name: str) -> str:
        """Return a program's path. Raises EnvironmentUnsuitable where it is missing, or others could change it."""
        found = self.folder / name
        if not is_file(found):
            raise EnvironmentUnsuitable(
                f'program "{name}" was not found in "{self.folder}"', hint="Install PostgreSQL's client programs."
            )
        return check_program(str(found), os.geteuid())


def find_programs(
    folders: Iterable[Path], source: int, target: int, account: Account | None, *, only: bool = False
) -> ClientPrograms:
    """Return the programs of the version that suits: the target's own, else the next one that knows the source.

    `source` and `target` are the major versions of the servers. `folders` are searched in their order, then those of a
    distribution, which `only` leaves out; of two of the same version the first counts. The programs are asked for their
    version as `account`, None for ours. pg_dump refuses servers that are newer than itself. Raises
    EnvironmentUnsuitable where there is none.
    """
    found = dict[int, ClientPrograms]()
    for folder in dict.fromkeys((*folders, *(() if only else sorted(_DEBIAN.glob("*/bin"))))):
        if is_file(folder / "pg_dump") and is_file(folder / "pg_restore"):
            with suppress(EnvironmentUnsuitable):
                major = program_major(folder / "pg_dump", account)
                found.setdefault(major, ClientPrograms(folder, major))
    fit = sorted(
        (major for major in found if major >= source), key=lambda major: (major != target, major < target, major)
    )
    if not fit:
        seen = ", ".join(map(str, sorted(found))) or "none"
        raise EnvironmentUnsuitable(
            f"no pg_dump and pg_restore of PostgreSQL {source} or later was found (versions seen: {seen})",
            hint=f"Install the client programs of PostgreSQL {target}.",
        )
    return found[fit[0]]


def program_major(program: Path, account: Account | None) -> int:
    """Return the major version that a program tells. Raises EnvironmentUnsuitable where it tells none."""
    user = account.name if account is not None else None
    said = LocalRunner().run([check_program(str(program), os.geteuid()), "--version"], user=user, timeout_s=60).stdout
    match = _VERSION.search(said)
    if match is None:
        raise EnvironmentUnsuitable(f'"{program}" does not say which version it is')
    return int(match[1])


def refused_compression(pg_dump: str, compression: str, account: Account | None) -> str:
    """Return what a pg_dump says of a compression that it does not know or was built without; empty where it takes it.

    It looks at it before it connects, which is all that it could do here.
    """
    argv = [pg_dump, f"--compress={compression}", "--format=custom", "--file=/dev/null", "--no-password"]
    user = account.name if account is not None else None
    argv.append("--dbname=host=/nonexistent")
    said = LocalRunner().run(argv, env={"LC_ALL": "C"}, user=user, timeout_s=60, check=False).stderr
    return next((line.strip() for line in said.splitlines() if "compress" in line), "")


class ProgramFailed(EnvironmentUnsuitable):
    """A program ended badly; its message is the last thing that it said."""


def run_client(
    place: MovePlace,
    argv: Sequence[str],
    environment: Mapping[str, str],
    name: str,
    *,
    fds: Sequence[int] = (),
    told: Callable[[str], object] = lambda _: None,
) -> bool:
    """Run a program to its end in the rehearsal's folder; False where it was ended because of `halt`.

    `place` has that folder, the account, the tag and `halt`. `argv` is the program and its arguments; `environment`
    adds to what a client program inherits, `fds` are the descriptors that it inherits. `told` is given each line of its
    stderr as it comes; what it writes is in `log-NAME.out` and `log-NAME.err` there, NAME being `name` without its
    suffix. Raises ProgramFailed with its last words.
    """
    log = place.folder / f"log-{name}"
    process = DriverProcess.start(
        argv,
        environment={
            **environment,
            "PGAPPNAME": place.tag,
            "LC_ALL": "C",
            "PGOPTIONS": environment.get("PGOPTIONS", ""),
        },
        directory=place.folder,
        stdout=log.with_suffix(".out"),
        stderr=log.with_suffix(".err"),
        account=place.account,
        fds=fds,
        kind=ProgramKind.CLIENT,
    )
    lines = _Tail(log.with_suffix(".err"))
    try:
        while (code := process.wait(LOOK_S)) is None:
            lines.hand(told)
            if place.halt():
                return False
        lines.hand(told)
    finally:
        process.terminate()
        lines.close()
    if code != 0:
        raise ProgramFailed(f'"{Path(argv[0]).name}" failed with exit code {code}', detail=lines.last or None)
    return True


class _Tail:
    """Hands on whole lines of a file that grows, and keeps the last one that is an error, or the last of all."""

    def __init__(self, path: Path) -> None:
        self._file = io.TextIOWrapper(open_file(path, follow=False), errors="replace", newline="\n")
        self._part = ""
        self._error = ""
        self._last = ""

    def hand(self, told: Callable[[str], object]) -> None:
        """Hand on the lines that are new."""
        *lines, self._part = (self._part + self._file.read()).split("\n")
        for line in lines:
            self._last = line or self._last
            if "error: " in line and not self._error:
                self._error = line
            told(line)

    def close(self) -> None:
        """Close the file; what was read stays."""
        self._file.close()

    @property
    def last(self) -> str:
        """Return the first error, or the last words, without a password that a command in them has."""
        return redact(self._error or self._part or self._last)[-_LAST:]


@contextmanager
def handed_over(text: str) -> Iterator[tuple[str, int]]:
    """Yield a path by which a child of any account reads a text, and the descriptor that it must inherit."""
    descriptor = os.memfd_create("pgdyno-list")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(text.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield f"/dev/fd/{descriptor}", descriptor
    finally:
        os.close(descriptor)
