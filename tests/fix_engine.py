"""The compiled engine of a replay, built where there is a toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest

import build_engine
from pgdyno.trace.engines import COMPILED


@pytest.fixture(scope="session")
def compiled_engine() -> Path:
    """Return the program; `make test` has built it, and a single test builds it itself."""
    reason = build_engine.build()
    if reason is not None:
        pytest.skip(reason)
    return COMPILED
