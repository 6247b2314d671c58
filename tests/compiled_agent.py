"""Bytecode for the agent that tests send to a host: it and both watchdogs compiled all modules at each start.

That was most of the CPU time of a remote test. The night sends what a user's pgdyno does, sources alone, as do the
tests of the payload itself. A Python of another version than ours passes over the bytecode.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Iterator
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

import pgdyno
from pgdyno.remote import payload

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
    """Add bytecode to the payloads of this process while VARIABLE is set."""
    payload._own_files = _compiled(payload._own_files)
    payload._foreign_files = _compiled(payload._foreign_files)


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
