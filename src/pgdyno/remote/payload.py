"""What is sent to a database host: one reproducible zip that its python3 runs, and nothing else has to be there.

It holds pgdyno's lowest layers and three pure-Python distributions: psycopg, which loads the host's own libpq,
typing_extensions, and platformdirs. Nothing compiled. The name of a payload is its SHA-256: one content, one name.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackagePath, distribution
from pathlib import Path

import pgdyno
from pgdyno.errors import EnvironmentUnsuitable

OWN = (
    "__init__.py",
    "errors.py",
    "outputs.py",
    "units.py",
    "outside",
    "model",
    "knobs",
    "capture",
    "control",
    "inventory",
    "kernel",
    "linux",
    "owner",
    "preflight",
    "remote",
    "routes",
    "sandbox",
    "server",
    "targets",
    "undo",
    "probes",
)
"""Of pgdyno: what its agent (`probes.agent`) and the watchdog may import, and no layer above."""
DISTRIBUTIONS = ("psycopg", "typing_extensions", "platformdirs")
_SUFFIXES = (".py", "/METADATA", "LICENSE", "LICENSE.txt")
_THE_DAY = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold: a payload says nothing about when it was made."""
_MAIN = '''"""Run the agent; sudo may have started us by a descriptor, but the watchdogs need the file's own name."""
import os
import sys

sys.path[0] = os.path.realpath(sys.path[0])
os.environ["PSYCOPG_IMPL"] = "python"
from pgdyno.probes.agent import main

sys.exit(main())
'''


@dataclass(frozen=True, slots=True)
class Payload:
    """An executable zip and its SHA-256 in hex."""

    data: bytes
    digest: str


@functools.cache
def build(interpreter: str) -> Payload:
    """Build the payload whose first line names this interpreter of the host.

    The same code and interpreter give the same bytes on every machine. Raises EnvironmentUnsuitable when one of the
    distributions is not installed with its sources.
    """
    content = io.BytesIO()
    content.write(f"#!{interpreter} -IS\n".encode())
    # Stored, not deflated: what a compressor makes of the same bytes differs between its versions.
    with zipfile.ZipFile(content, "a", zipfile.ZIP_STORED) as archive:
        for name, data in sorted([("__main__.py", _MAIN.encode()), *_own_files(), *_foreign_files()]):
            entry = zipfile.ZipInfo(name, _THE_DAY)
            entry.create_system = 3  # Unix, wherever it is built
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data)
    data = content.getvalue()
    return Payload(data, hashlib.sha256(data).hexdigest())


def _own_files() -> Iterator[tuple[str, bytes]]:
    root = Path(pgdyno.__file__).parent
    for name in OWN:
        found = [root / name] if name.endswith(".py") else (root / name).rglob("*")
        chosen = (path for path in found if path.suffix in (".py", ".toml", ".sql"))
        yield from ((f"pgdyno/{path.relative_to(root).as_posix()}", path.read_bytes()) for path in chosen)


def _foreign_files() -> Iterator[tuple[str, bytes]]:
    for name in DISTRIBUTIONS:
        chosen = [file for file in distribution(name).files or [] if _is_wanted(file)]
        if not any(file.suffix == ".py" for file in chosen):
            raise EnvironmentUnsuitable(
                f'package "{name}" is installed without its Python files, so that it cannot be sent to a host',
                hint=f"Reinstall it: pip install --force-reinstall {name}.",
            )
        yield from ((file.as_posix(), Path(str(file.locate())).read_bytes()) for file in chosen)


def _is_wanted(file: PackagePath) -> bool:
    inside = not file.is_absolute() and ".." not in file.parts and "__pycache__" not in file.parts
    return inside and file.as_posix().endswith(_SUFFIXES)
