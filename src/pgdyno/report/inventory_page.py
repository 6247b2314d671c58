"""The terminal page of `pgdyno inspect`: what is known of a server and its host, section by section. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pgdyno.errors import UsageError
from pgdyno.inventory.digest import inventory_hash
from pgdyno.model.cpus import CpuRow
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.inventory import BlockDevice, HostInventory, Inventory, Mount, Place, ServerInventory
from pgdyno.report.drawing.line_breaks import wrapped
from pgdyno.units import bytes_text, format_quantity, ranges_text, seconds_text

Row = tuple[str, str]
"""A label and a text; an empty label goes on with the row above."""
_WRITEBACK = ("vm.dirty_background_bytes", "vm.dirty_background_ratio", "vm.dirty_bytes", "vm.dirty_ratio")
_SHOWN_SYSCTLS = (*_WRITEBACK, "vm.swappiness", "vm.overcommit_memory", "vm.nr_hugepages", "kernel.numa_balancing")
_SOLD_AS = {
    "2964": "z13",
    "2965": "z13s",
    "3906": "z14",
    "3907": "z14 ZR1",
    "8561": "z15",
    "8562": "z15 T02",
    "3931": "z16",
    "3932": "z16 A02",
    "9175": "z17",
}
"""Machine types of s390x by the name they are sold under."""
_BRANCH = " │├└"
_DEEPEST = 24
"""Of the indentation: a capture that was made by hand may go round in a circle."""
_QUIET_SOURCES = frozenset({"default", "override", "client", "session", "unknown"})


def sections(inventory: Inventory) -> dict[str, list[Row]]:
    """Return the rows of every section by its name, in the order of the page."""
    return {name: list(make(inventory)) for name, make in SECTIONS.items()}


def require_sections(names: Sequence[str]) -> None:
    """Raise UsageError on a name that is no section's."""
    for name in names:
        if name not in SECTIONS:
            raise UsageError(f'--section "{name}" is not one of {", ".join(SECTIONS)}', hint="Name one of these.")


def inventory_text(inventory: Inventory, only: Sequence[str] = (), room: int | None = None) -> str:
    """Return the page; `only` names sections, `room` is the columns of a terminal: longer texts go on under themselves.

    Raises UsageError on a name that is no section's.
    """
    require_sections(only)
    named = f"environment {inventory.environment_name}, inventory {inventory_hash(inventory)}"
    lines = [f"{named}, from {inventory.origin}" + _taken(inventory)]
    for name, make in SECTIONS.items():
        if only and name not in only:
            continue
        rows = list(make(inventory))
        width = max((len(label) for label, _ in rows), default=0) + 2
        lines += ["", name.upper()]
        for label, text in rows:
            line = f"  {label:<{width}}{text}".rstrip()
            branch = len(text) - len(text.lstrip(_BRANCH))
            lines += [line] if room is None else wrapped(line, room, indent=" " * (width + 2 + branch))
    return "\n".join(lines)


def shown(value: object, write: Callable[..., str] = str) -> str:
    """Return a fact as text, an unknown one with its reason."""
    if isinstance(value, Unknown):
        return str(value)
    return ("yes" if value else "no") if isinstance(value, bool) and write is str else write(value)


def setting_text(fact: SettingFact) -> str:
    """Return a setting with the unit that people write."""
    if fact.unit is None or not fact.setting.lstrip("-").isdecimal():
        return fact.setting or "''"
    try:
        return format_quantity(int(fact.setting), fact.unit)
    except UsageError:
        return f"{fact.setting} {fact.unit}"


def _taken(inventory: Inventory) -> str:
    return f", taken {inventory.taken_at}" if inventory.taken_at else ", of unknown time"


def _server(inventory: Inventory) -> Iterable[Row]:
    server = inventory.server
    if isinstance(server, Unknown):
        yield "server", str(server)
        return
    yield "version", f"{server.flavour} {server.version}"
    yield "role", shown(server.in_recovery, lambda replica: "standby, in recovery" if replica else "primary")
    yield "standbys, slots", f"{shown(server.standbys)}, {shown(server.slots)}"
    yield "running for", shown(server.uptime_s, seconds_text)
    yield "sessions", f"{shown(server.connections)} of {_setting(server, 'max_connections')}"
    yield "shared memory", shown(server.shared_memory_bytes, bytes_text)
    yield "huge pages", f"in use: {shown(server.huge_pages_in_use)}, needed: {shown(server.huge_pages_needed)}"
    peak = shown(server.peak_memory_bytes, bytes_text)
    yield "VmPeak", f"{peak} ({server.peak_memory_file})" if server.peak_memory_file else peak
    yield "checksums", shown(server.data_checksums)
    for name in ("data_directory", "config_file", "hba_file"):
        yield name, _setting(server, name)
    yield "log", shown(server.log_files, ", ".join)
    yield "size", shown(inventory.size)
    yield "utilization", shown(inventory.utilization)
    yield "criticality", shown(inventory.criticality)
    yield (
        "extensions",
        shown(server.extensions, lambda found: ", ".join(f"{k} {v}" for k, v in found.items()) or "none"),
    )
    yield "tables here", shown(server.relations)
    yield from _databases(server)


def _databases(server: ServerInventory) -> Iterable[Row]:
    if isinstance(server.databases, Unknown):
        yield "databases", str(server.databases)
        return
    for place, database in enumerate(server.databases):
        age = shown(database.statistics_age_s, lambda age: f"for {seconds_text(age)}")
        size = shown(database.size_bytes, bytes_text)
        yield "databases" if place == 0 else "", f"{database.name}: {size}, statistics {age}"


_WIDEST_VALUE = 24
"""Longer values, folders as a rule, do not widen the column of all."""


def _settings(inventory: Inventory) -> Iterable[Row]:
    server = inventory.server
    if isinstance(server, Unknown):
        yield "settings", str(server)
        return
    changed = [fact for fact in server.settings.values() if is_changed(fact)]
    width = max((len(text) for fact in changed if len(text := setting_text(fact)) <= _WIDEST_VALUE), default=0)
    for fact in changed:
        yield fact.name, f"{setting_text(fact):<{width}}  {_source(fact)}"
    if not changed:
        yield "settings", "all at their defaults"
    for name, reason in server.hidden.items():
        yield name, f"unknown: {reason}"
    overrides = server.overrides
    for who, pairs in ({} if isinstance(overrides, Unknown) else overrides).items():
        yield f"for {who}", ", ".join(f"{name} = {value}" for name, value in pairs.items())
    if isinstance(overrides, Unknown):
        yield "of roles and databases", str(overrides)


def is_changed(fact: SettingFact) -> bool:
    """Tell whether somebody set it: not the built-in default, not the server itself, not this very session."""
    if fact.pending_restart:
        return True
    if fact.source == "unknown":
        return fact.boot_val is None or fact.setting != fact.boot_val
    return fact.source not in _QUIET_SOURCES and (fact.boot_val is None or fact.setting != fact.boot_val)


def _source(fact: SettingFact) -> str:
    where = f"{fact.sourcefile}:{fact.sourceline}" if fact.sourcefile else fact.source
    default = "" if fact.boot_val is None else f", default {setting_text(_at(fact, fact.boot_val))}"
    return f"{where}{default}" + (", waits for a restart" if fact.pending_restart else "")


def _at(fact: SettingFact, value: str) -> SettingFact:
    return SettingFact(fact.name, value, fact.unit, fact.vartype, fact.context, fact.source)


def _processor(inventory: Inventory) -> Iterable[Row]:
    part = inventory.host.processor
    sold_as = _SOLD_AS.get(str(part.machine)) if part.architecture == "s390x" else None
    machine = f"{part.machine} ({sold_as})" if sold_as else shown(part.machine)
    yield "architecture", f"{shown(part.architecture)}, machine {machine}"
    yield "model", shown(part.model)
    yield (
        "CPUs",
        f"{shown(part.cpus)} online of {shown(part.cpus_configured)}; usable by the server: {shown(part.usable)}",
    )
    yield (
        "cores",
        f"{shown(part.cores)}{_of_whom(inventory)}, threads per core: {shown(part.threads_per_core)} of at most "
        f"{shown(part.max_threads)}",
    )
    levels = {"sockets": part.sockets, "books": part.books, "drawers": part.drawers, "NUMA nodes": part.numa_nodes}
    known = [f"{name} {count}" for name, count in levels.items() if not isinstance(count, Unknown)]
    yield "topology", ", ".join(known) or shown(part.sockets)
    yield from _layout(part.layout)
    where = {True: "yes, over several chips, nodes or caches", False: "no, on one chip"}
    yield "scattered", shown(part.scattered, lambda scattered: where[scattered])
    if part.architecture == "s390x":
        yield "polarization", shown(part.polarization)
        yield "entitlement", shown(part.entitlement, _counts)
    yield "shared", shown(part.shared)
    yield "governor", shown(part.governor)
    layer = inventory.host.virtualization
    yield "virtualization", shown(layer.layer) + (f" ({layer.detail})" if layer.detail else "")
    yield "container", "none" if layer.container is None else shown(layer.container)


def _of_whom(inventory: Inventory) -> str:
    """Say that cores are a hypervisor's virtual ones; those of an LPAR are dispatched processors."""
    layer, cores = inventory.host.virtualization.layer, inventory.host.processor.cores
    physical = isinstance(layer, Unknown) or layer in ("none", "LPAR") or isinstance(cores, Unknown)
    return "" if physical else f" virtual ones of {layer}"


def _layout(layout: tuple[CpuRow, ...] | Unknown) -> Iterable[Row]:
    """Show which CPUs the widest level that tells them apart has together; nothing where none does."""
    online = [] if isinstance(layout, Unknown) else [cpu for cpu in layout if cpu.online]
    for level in ("drawer", "book", "node", "socket"):
        members: dict[str, list[int]] = {}
        for cpu in online:
            members.setdefault(getattr(cpu, level) or "?", []).append(cpu.number)
        if len(members) > 1:
            for place, (name, cpus) in enumerate(members.items()):
                yield "" if place else "CPUs lie in", f"{level} {name}: {len(cpus)} ({ranges_text(cpus)})"
            return


def _memory(inventory: Inventory) -> Iterable[Row]:
    part = inventory.host.memory
    yield "RAM", f"{shown(part.ram_bytes, bytes_text)}, available {shown(part.available_bytes, bytes_text)}"
    yield "limit", f"{shown(part.limit_bytes, bytes_text)} by {part.limited_by}"
    if isinstance(part.group_oom_kills, int):
        yield "OOM kills", f"{part.group_oom_kills} in the server's cgroup"
    yield "page size", shown(part.page_size, bytes_text)
    sizes = shown(part.huge_page_sizes, lambda found: ", ".join(map(bytes_text, found)) or "none")
    yield "huge page", f"{shown(part.huge_page_bytes, bytes_text)} (sizes: {sizes})"
    yield "pool", f"{shown(part.huge_pages_total)} pages, {shown(part.huge_pages_free)} free"
    yield "transparent", f"{shown(part.thp_enabled)}, defrag {shown(part.thp_defrag)}"
    yield "page cache", shown(part.page_cache_bytes, bytes_text)
    if isinstance(part.swap, Unknown):
        yield "swap", str(part.swap)
    for area in () if isinstance(part.swap, Unknown) else part.swap:
        yield "swap", f"{area.name} ({area.kind}), {bytes_text(area.bytes)}, {bytes_text(area.used_bytes)} used"
    if part.swap == ():
        yield "swap", "none"


def _kernel(inventory: Inventory) -> Iterable[Row]:
    part = inventory.host.kernel
    yield "release", shown(part.release)
    yield "distribution", shown(part.distribution)
    yield "scheduler", shown(part.scheduler)
    cost = shown(part.migration_cost_ns, lambda cost: f"{cost} ns")
    where = "" if isinstance(part.migration_interface, Unknown) else f", {part.migration_interface}"
    yield "migration cost", cost + where
    yield "tuned profile", shown(part.tuned_profile)
    sysctls = part.sysctls
    if isinstance(sysctls, Unknown):
        yield "sysctls", str(sysctls)
        return
    for name in _SHOWN_SYSCTLS:
        if name in sysctls:
            yield name, sysctls[name] + _set_in(part.sysctl_files, name)


def _set_in(files: Mapping[str, Mapping[str, str]] | Unknown, name: str) -> str:
    found = [] if isinstance(files, Unknown) else [path for path, values in files.items() if name in values]
    return f"  set in {', '.join(found)}" if found else ""


def _storage(inventory: Inventory) -> Iterable[Row]:
    host = inventory.host
    if isinstance(host.places, Unknown):
        yield "places", str(host.places)
    drawn: dict[object, str] = {}
    for place in () if isinstance(host.places, Unknown) else host.places:
        label = f"{place.purpose} {place.name}".rstrip()
        yield label, place.path
        if isinstance(place.stack, tuple) and (place.mount_point, place.stack) in drawn:
            yield "", f"└ where {drawn[place.mount_point, place.stack]} is"
            continue
        drawn[place.mount_point, place.stack] = label
        yield from _place(host, place)
    if isinstance(host.devices, Unknown):
        yield "devices", str(host.devices)
    elif isinstance(host.places, Unknown) or not host.places:
        for device in host.devices:
            yield device.name, _device(device)
    for volume in () if isinstance(host.volumes, Unknown) else host.volumes:
        width = (
            f", {volume.stripes} stripes of {shown(volume.stripe_bytes, bytes_text)}"
            if volume.stripes != 1
            else ", linear"
        )
        ahead = f"read-ahead {shown(volume.read_ahead)}, in force {shown(volume.effective_read_ahead_kb)} KiB"
        lies = "; ".join(", ".join(segment) for segment in volume.segments) or ", ".join(volume.devices)
        yield "volume", f"{volume.path}{width}, {ahead}, on {lies}"
    if isinstance(host.volumes, Unknown):
        yield "volumes", str(host.volumes)
    for channel in () if isinstance(host.channel_devices, Unknown) else host.channel_devices:
        yield (
            f"CCW {channel.bus_id}",
            " ".join([channel.kind, channel.device or "", channel.status or "", "chpids " + " ".join(channel.chpids)]),
        )
    for line in () if isinstance(host.adapters, Unknown) else host.adapters:
        yield "adapter", line


def _place(host: HostInventory, place: Place) -> Iterable[Row]:
    if isinstance(place.mount_point, Unknown):
        yield "", f"└ {place.mount_point}"
        return
    mount = host.mount(place.mount_point)
    yield "", f"└ {_mount(mount)}" if mount else f"└ {place.mount_point}"
    if isinstance(place.stack, Unknown):
        yield "", f"  └ {place.stack}"
        return
    yield from _tree(host, place.stack[0], "  ", is_last=True)


def _tree(host: HostInventory, name: str, indent: str, *, is_last: bool) -> Iterable[Row]:
    device = host.device(name)
    yield "", f"{indent}{'└' if is_last else '├'} {name if device is None else _device(device)}"
    below = () if device is None or len(indent) > _DEEPEST else device.below
    for part in below:
        yield from _tree(host, part, f"{indent}{' ' if is_last else '│'} ", is_last=part == below[-1])


def _mount(mount: Mount) -> str:
    block = shown(mount.block_size, bytes_text)
    free = f"{shown(mount.free_bytes, bytes_text)} free of {shown(mount.size_bytes, bytes_text)}"
    return f"{mount.point}: {mount.filesystem} on {mount.device}, blocks of {block}, {free}, {','.join(mount.options)}"


def _device(device: BlockDevice) -> str:
    parts = [f"{device.name} ({device.kind}{', ' + device.mapper if device.mapper else ''})"]
    facts = (
        shown(device.size_bytes, bytes_text),
        shown(device.storage),
        shown(device.scheduler, "scheduler {}".format),
        shown(device.read_ahead_kb, "read-ahead {} KiB".format),
        shown(device.logical_sector, lambda size: f"sectors {size}/{shown(device.physical_sector)} B"),
        shown(device.rotational, lambda turns: "rotational" if turns else "not rotational"),
    )
    # in a tree the reasons would hide the disks: --json has them
    parts += [fact for fact in facts if not fact.startswith("unknown (")]
    return ", ".join(parts)


def _network(inventory: Inventory) -> Iterable[Row]:
    found = inventory.host.network
    if not isinstance(inventory.server, Unknown):
        where = {True: "on this host, no network between", False: "on another host"}
        yield "server", shown(inventory.server.same_host, lambda same: where[same])
    if isinstance(found, Unknown):
        yield "interfaces", str(found)
        return
    for port in found:
        up = shown(port.up, lambda up: "up" if up else "down")
        parts = [
            up,
            f"driver {shown(port.driver)}",
            f"speed {shown(port.speed_mbit, lambda speed: f'{speed} Mbit/s')}",
            f"MTU {shown(port.mtu)}",
        ]
        if not isinstance(port.physical_function, Unknown):
            parts.append(f"virtual function of {port.physical_function}, port {shown(port.physical_port)}")
        yield port.name, ", ".join(parts)
    if not found:
        yield "interfaces", "none"


def _missing(inventory: Inventory) -> Iterable[Row]:
    yield from inventory.missing.items() or [("none", "no reading failed; each section has its own reasons")]


def _setting(server: ServerInventory, name: str) -> str:
    return str(server.text(name))


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in found.items()) or "none"


SECTIONS: Mapping[str, Callable[[Inventory], Iterable[Row]]] = {
    "server": _server,
    "processor": _processor,
    "memory": _memory,
    "kernel": _kernel,
    "storage": _storage,
    "network": _network,
    "settings": _settings,
    "missing": _missing,
}
