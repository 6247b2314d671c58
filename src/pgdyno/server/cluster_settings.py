"""The settings of a Patroni cluster: which of them belong to a node or its role and not to the cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pgdyno.server import snapshot
from pgdyno.server.snapshot import SettingDifference, SettingState

_ROLE_CATEGORIES = ("Standby Servers", "Recovery Target", "Archive Recovery", "File Locations", "Connection Settings")
_ROLE_STATES = ("in_hot_standby", "transaction_read_only")


def is_role_bound(state: SettingState) -> bool:
    """Return True for a setting that Patroni gives a node by its role or by its place: a failover changes it."""
    return state.category.endswith(_ROLE_CATEGORIES) or state.name in _ROLE_STATES


def cluster_differences(
    before: Mapping[str, SettingState], after: Mapping[str, SettingState]
) -> tuple[SettingDifference, ...]:
    """Return what differs between two leaders of one cluster, or one leader at two times; see snapshot.differences.

    Files and lines do not count, because each node has its own, nor does what `is_role_bound`.
    """
    found = snapshot.differences(_comparable(before), _comparable(after))
    return tuple(SettingDifference(each.name, before.get(each.name), after.get(each.name)) for each in found)


def _comparable(settings: Mapping[str, SettingState]) -> dict[str, SettingState]:
    return {
        name: replace(state, sourcefile=None, sourceline=None)
        for name, state in settings.items()
        if not is_role_bound(state)
    }
