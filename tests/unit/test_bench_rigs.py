"""What a program of bench/ leaves behind: an end by SIGTERM, as a timeout has it, must not skip its `finally`."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
KILLED_ANYWAY = {"live_kills.py"}
"""Its server is there to be killed, and is kept in the user's folder for the next of its kills."""
RIGS = sorted(path for path in BENCH.glob("*.py") if "Sandbox.open_or_create(" in path.read_text())


@pytest.mark.parametrize("path", [rig for rig in RIGS if rig.name not in KILLED_ANYWAY], ids=lambda rig: rig.name)
def test_a_rig_with_a_server_of_its_own_ends_as_an_interrupt_does(path: Path) -> None:
    assert "signal.signal(signal.SIGTERM, signal.default_int_handler)" in path.read_text()
