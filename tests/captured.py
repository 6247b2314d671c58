"""The captures of tests/data/captures, read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pgdyno.capture.texts import Capture
from pgdyno.inventory.inspection import inspect_capture
from pgdyno.model.inventory import Inventory, ServerInventory

CAPTURES = Path(__file__).parent / "data" / "captures"
LOOSE = CAPTURES / "loose"


@cache
def captured(name: str) -> Inventory:
    """Return the inventory of a capture by its folder's name, loose ones as `loose/NAME`."""
    return inspect_capture(CAPTURES / name)


def server_of(inventory: Inventory) -> ServerInventory:
    """Return the server, which is known."""
    assert isinstance(inventory.server, ServerInventory)
    return inventory.server


def made(**texts: str) -> Capture:
    """Make a capture: `proc__meminfo` stands for proc/meminfo."""
    return Capture({name.replace("__", "/"): text for name, text in texts.items()})
