"""The compiled engine's own tests, which cargo runs."""

from __future__ import annotations

import pytest

import build_engine


@pytest.mark.timeout(600)
def test_the_crate_passes_its_tests() -> None:
    done = build_engine.cargo("test")
    if done is None:
        pytest.skip("no Rust toolchain: `make system` installs one")
    assert done.returncode == 0, done.stdout + done.stderr
