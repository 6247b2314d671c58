"""Bytecode for the agent that tests send to a host: it and both watchdogs compiled all modules at each start.

That was most of the CPU time of a remote test. The night sends what a user's pgdyno does, sources alone, as do the
tests of the payload itself. A Python of another version than ours passes over the bytecode.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

import pgdyno
from pgdyno.remote import payload
from pgdyno.remote.payload import Payload
from templates import FOLDER

VARIABLE = "PGDYNO_TEST_COMPILED_AGENT"
ROOTS = (Path(pgdyno.__file__).parents[1], Path(sysconfig.get_path("purelib")))
_UNCHECKED = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""The head of bytecode that is compared with no source."""
Files = Callable[[], Iterator[tuple[str, bytes]]]


def send_bytecode(patch: pytest.MonkeyPatch) -> None:
    """Have this test, and the forks that it asks for, send bytecode too."""
    patch.setenv(VARIABLE, "1")
    payload.build.cache_clear()


def use_bytecode() -> None:
    """Add bytecode to the payloads of this process while VARIABLE is set, and make each once in a run of pytest."""
    payload._own_files = _compiled(payload._own_files)
    payload._foreign_files = _compiled(payload._foreign_files)
    make = payload.build.__wrapped__

    @cache
    def build(interpreter: str) -> Payload:
        if VARIABLE not in os.environ or FOLDER not in os.environ:
            return make(interpreter)
        name = hashlib.sha256(interpreter.encode()).hexdigest()[:16]
        kept = Path(os.environ[FOLDER]) / f"{name}.pyz"
        with suppress(FileNotFoundError):
            data = kept.read_bytes()
            return Payload(data, hashlib.sha256(data).hexdigest())
        made = make(interpreter)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_bytes(made.data)
        partial.rename(kept)
        return made

    payload.build = build


def _compiled(files: Files) -> Files:
    def both() -> Iterator[tuple[str, bytes]]:
        for name, data in files():
            yield name, data
            if VARIABLE in os.environ and name.endswith(".py"):
                for root in ROOTS:
                    made = Path(cache_from_source(str(root / name)))
                    if made.is_file():
                        yield f"{name}c", _UNCHECKED + made.read_bytes()[len(_UNCHECKED) :]

    return both
