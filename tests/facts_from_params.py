"""Facts of servers of every supported version, made from their real `pg_settings` rows, on a machine of any size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from pgdyno.model.facts import Facts, HostFacts, ServerFacts, SettingFact, Unknown

GB = 1 << 30
_DATA = Path(__file__).parent / "data" / "pg_params.json"


@cache
def _document() -> dict[str, dict[str, object]]:
    return json.loads(_DATA.read_text("utf-8"))


@cache
def settings_of(major: int) -> Mapping[str, SettingFact]:
    """Return every row of `pg_settings` of a fresh cluster of this version."""
    settings: dict[str, SettingFact] = {}
    for name, rows in _document()["params"].items():
        for row in rows:
            if major in row["versions"]:
                fields = {key: value for key, value in row.items() if key != "versions"}
                fields["enumvals"] = tuple(fields.get("enumvals", ()))
                settings[name] = SettingFact(name=name, unit=fields.pop("unit", None), reset_val=None, **fields)
    return settings


def all_names() -> frozenset[str]:
    """Return the names of the parameters of all versions."""
    return frozenset(_document()["params"])


def make_facts(
    major: int = 18,
    *,
    ram_bytes: int | Unknown = 24 * GB,
    cores: int = 2,
    disk_free_bytes: int | Unknown = 200 * GB,
    huge_pages_total: int | Unknown = 0,
    standbys: int | Unknown = 0,
    changed: Mapping[str, str] | None = None,
    fields: Mapping[str, Mapping[str, object]] | None = None,
) -> Facts:
    """Make facts: `changed` gives settings another value in base units, `fields` other fields of their rows."""
    settings = dict(settings_of(major))
    for name, setting in (changed or {}).items():
        settings[name] = replace(settings[name], setting=setting, source="configuration file")
    for name, other in (fields or {}).items():
        settings[name] = replace(settings[name], **other)
    version = _document()["versions"][str(major)]
    host = HostFacts(
        architecture="x86_64",
        kernel="6.1.0",
        cores=cores,
        ram_bytes=ram_bytes,
        memory_limit_bytes=ram_bytes,
        page_size=4096,
        cpu_model="model",
        virtualization="none",
        data_disk_free_bytes=disk_free_bytes,
        data_filesystem="ext4",
        transparent_huge_pages="madvise",
        huge_pages_total=huge_pages_total,
        swap_total_bytes=0,
    )
    server = ServerFacts(
        version=str(version["version"]),
        version_num=int(version["version_num"]),
        block_size=8192,
        max_connections=int(settings["max_connections"].setting),
        in_recovery=False,
        standbys=standbys,
        data_directory="/data",
        config_file="/data/postgresql.conf",
        data_checksums=True,
    )
    return Facts(host=host, server=server, settings=settings)
