"""An inventory as plain JSON values: every field, an unknown one as {"unknown": reason}. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from pgdyno.inventory.digest import inventory_hash
from pgdyno.model.inventory import Inventory
from pgdyno.model.shapes import plain
from pgdyno.report.inventory_page import require_sections

_OF_SECTION: Mapping[str, tuple[str, ...]] = {
    "processor": ("processor", "virtualization"),
    "memory": ("memory",),
    "kernel": ("kernel",),
    "storage": ("devices", "volumes", "mounts", "places", "channel_devices", "adapters"),
    "network": ("network",),
}


def inventory_json(inventory: Inventory, only: Sequence[str] = ()) -> dict[str, object]:
    """Return the inventory with its hash and the environment's name; `only` keeps these sections of the page alone.

    Raises UsageError on a name that is no section's.
    """
    require_sections(only)
    whole: dict[str, object] = {"environment": plain(inventory.environment_name)}
    whole |= {"inventory_hash": inventory_hash(inventory), "size": plain(inventory.size)}
    parts_of_it = [part.name for part in fields(inventory) if part.name != "environment"]
    whole |= {name: plain(getattr(inventory, name)) for name in parts_of_it}
    if not only:
        return whole
    kept = {name: whole[name] for name in ("environment", "origin", "taken_at", "criticality")}
    host = whole["host"]
    parts = [part for section in only for part in _OF_SECTION.get(section, ())]
    if parts and isinstance(host, dict):
        kept["host"] = {part: host[part] for part in parts}
    if {"server", "settings"} & set(only):
        kept["server"] = whole["server"]
    return kept | ({"missing": whole["missing"]} if "missing" in only else {})
