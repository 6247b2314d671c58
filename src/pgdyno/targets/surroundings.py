"""Read what a measurement on a target depends on besides its settings: the host and the kernel. Read-only.

Apart from `inspect`, because advice needs it and no route by which a setting reaches a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pgdyno.kernel import kernel_facts
from pgdyno.linux import host
from pgdyno.linux.block_devices import find_places, nowhere
from pgdyno.model.environment import Environment
from pgdyno.model.facts import HostFacts, KernelFact, Unknown, environment_of
from pgdyno.targets.target import Target


def seen_environment(target: Target, settings: Mapping[str, str]) -> Environment:
    """Return the environment that `read_facts` finds, where the settings were read already; asks no server."""
    shown = settings.get("data_directory")
    folder = target.directory or (None if shown is None else Path(shown))
    kernel = {name: fact.value for name, fact in kernel_facts_of(target, folder).items()}
    server = {
        "version": settings["server_version"],
        "block_size": int(settings["block_size"]),
        "data_checksums": checksums_of(settings.get("data_checksums")),
    }
    return environment_of(host_facts(target, folder), server, kernel)


def checksums_of(setting: str | None) -> bool | Unknown:
    """Return whether a server checks its pages, by its setting; unknown where it shows none."""
    return Unknown("data_checksums is not shown") if setting is None else setting == "on"


def host_facts(target: Target, folder: Path | None) -> HostFacts:
    """Return the facts of a target's host, which are unknown where it is another one or SQL alone is used."""
    if target.route is not None:
        from pgdyno.routes.sql_route import SqlRoute  # which most targets do without

        if isinstance(target.route, SqlRoute):
            return host.unknown_host("only SQL is used (--sql-only)")
    if not target.local:
        return host.unknown_host(target.cpu.reason)
    return host.read_host(folder, target.cpu.postmaster())


def kernel_facts_of(target: Target, folder: Path | None) -> dict[str, KernelFact]:
    """Return the kernel's facts on a target's host; `folder` is its data directory, None where it is not shown."""
    if not target.local:
        return kernel_facts.unknown_kernel(target.cpu.reason)
    hidden = nowhere("the server does not show its data directory to this role")
    return kernel_facts.read_kernel(hidden if folder is None else find_places(folder))
