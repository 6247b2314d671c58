"""Cases for rules: a small server on a small machine, with everything known, changed where a test needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from facts_from_params import settings_of
from pgdyno.advisor.case import Case
from pgdyno.advisor.engine import advise
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import Evidence
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.finding import Finding
from pgdyno.model.inventory import (
    HostInventory,
    Inventory,
    Kernel,
    Memory,
    Processor,
    SchedulerGeneration,
    ServerInventory,
    Virtualization,
)

GB = 1 << 30
MB = 1 << 20


def make_host(
    *,
    architecture: str = "x86_64",
    kernel: tuple[int, int] = (6, 1),
    ram_bytes: int = 128 * GB,
    huge_page_bytes: int = 2 * MB,
    page_size: int = 4096,
    cpus: int = 8,
    layer: str = "KVM",
    sysctls: Mapping[str, str] | None = None,
    **parts: object,
) -> HostInventory:
    """Make a host; `parts` are further fields of HostInventory, such as `devices` or `memory`."""
    values: dict[str, object] = {
        "processor": Processor(
            architecture=architecture,
            model="a processor",
            cpus=cpus,
            cpus_configured=cpus,
            cores=cpus,
            threads_per_core=1,
            max_threads=1,
            sockets=1,
            numa_nodes=1,
            last_level_caches=1,
            scattered=False,
            shared=False,
            features=frozenset(),
            usable=cpus,
        ),
        "memory": Memory(
            ram_bytes=ram_bytes,
            available_bytes=ram_bytes // 2,
            limit_bytes=ram_bytes,
            page_size=page_size,
            huge_page_bytes=huge_page_bytes,
            huge_page_sizes=(huge_page_bytes,),
            huge_pages_supported=True,
            huge_pages_total=0,
            huge_pages_free=0,
            huge_pages_reserved=0,
            thp_enabled="madvise",
            thp_defrag="madvise",
            swap=(),
        ),
        "kernel": Kernel(
            release=f"{kernel[0]}.{kernel[1]}.0",
            version=kernel,
            scheduler=SchedulerGeneration.EEVDF if kernel >= (6, 6) else SchedulerGeneration.CFS,
            sysctls=dict(sysctls or {}),
            migration_cost_ns=Unknown("the kernel does not have it"),
            migration_interface=Unknown("the kernel does not have it"),
        ),
        "virtualization": Virtualization(layer=layer),
        "devices": (),
        "volumes": (),
        "mounts": (),
        "places": (),
        "channel_devices": (),
        "network": (),
        "adapters": (),
    }
    return HostInventory(**{**values, **parts})


def make_server(
    major: int = 18,
    *,
    changed: Mapping[str, str] | None = None,
    extra: Mapping[str, SettingFact] | None = None,
    **parts: object,
) -> ServerInventory:
    """Make a server with the real settings of a fresh cluster; `changed` gives some another value in base units."""
    settings = dict(settings_of(major))
    for name, setting in (changed or {}).items():
        settings[name] = replace(settings[name], setting=setting, source="configuration file")
    values: dict[str, object] = {
        "version": f"{major}.0",
        "version_num": major * 10_000,
        "settings": {**settings, **(extra or {})},
        "overrides": {},
        "extensions": {"plpgsql": "1.0"},
        "databases": (),
        "in_recovery": False,
        "standbys": 0,
        "slots": 0,
        "data_checksums": major >= 18,
    }
    return ServerInventory(**{**values, **parts})


def make_case(host: HostInventory | None = None, server: ServerInventory | None = None, **evidence: object) -> Case:
    """Make a case; `evidence` are fields of Evidence."""
    return Case(Inventory(host or make_host(), server or make_server()), Evidence(**evidence))


def finding_of(rule: str, case: Case) -> Finding:
    """Judge all shipped rules on a case and return what one of them says."""
    findings = advise(case.inventory, case.evidence, shipped_rules())
    return next(finding for finding in findings if finding.rule == rule)
