"""The protocol with the agent: one JSON object a line, over stdin and stdout of `ssh HOST agent`.

    tuner   {"id": 7, "call": "apply", "with": {"settings": {"work_mem": "8MB"}, ...}}
    agent   {"id": 7, "gives": {...}}    or    {"id": 7, "error": {"class": "ApplyError", "message": ...}}
    agent   {"hello": {...}}             once, before anything else
    tuner   {}                           a sign of life

Dataclasses travel as objects; an `Unknown` as {"unknown": reason}. An error of our tree is raised again as the same
class, so that the tuner treats what failed on the host as it treats what fails here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from pgdyno import errors
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.model.facts import Facts, HostFacts, KernelFact, ServerFacts, SettingFact, Unknown
from pgdyno.target.apply import Applied
from pgdyno.target.bundle import UndoBundle
from pgdyno.target.host_texts import DistantReading, HostTexts
from pgdyno.target.manifest import Manifest
from pgdyno.target.restore import Restored
from pgdyno.target.rollback import BundleInfo, SessionState
from pgdyno.target.snapshot import SettingDifference, state_of

Json = Mapping[str, object]


def to_line(message: Json) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes) -> Json:
    """Read a line. Raises ValueError on what is no message."""
    return mapping(json.loads(line))


def plain(value: object) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def error_to_json(error: PgdynoError) -> dict[str, object]:
    """Return an error of our tree."""
    name = type(error).__name__
    return {"class": name, "message": error.message, "detail": error.detail, "hint": error.hint}


def error_from_json(values: Json) -> PgdynoError:
    """Return the same error; a class that this version does not know becomes EnvironmentUnsuitable."""
    found = getattr(errors, str(values["class"]), EnvironmentUnsuitable)
    kind = found if isinstance(found, type) and issubclass(found, PgdynoError) else EnvironmentUnsuitable
    return kind(str(values["message"]), detail=_text(values.get("detail")), hint=_text(values.get("hint")))


def facts_from_json(values: Json) -> Facts:
    """Rebuild the facts of `plain(facts)`."""
    # Any: the agent is this very version, so that its fields are ours, and `plain` keeps their types.
    host: dict[str, Any] = {name: _known(value) for name, value in mapping(values["host"]).items()}
    server: dict[str, Any] = {name: _known(value) for name, value in mapping(values["server"]).items()}
    server["extensions"] = tuple(words(server["extensions"]))
    settings = {name: _setting(dict(mapping(row))) for name, row in mapping(values["settings"]).items()}
    kernel = {name: _kernel(dict(mapping(row))) for name, row in mapping(values["kernel"]).items()}
    return Facts(HostFacts(**host), ServerFacts(**server), settings, kernel)


def _kernel(row: dict[str, Any]) -> KernelFact:
    return KernelFact(**{**row, "value": _known(row["value"]), "choices": tuple(words(row["choices"]))})


def _setting(row: dict[str, Any]) -> SettingFact:
    return SettingFact(**{**row, "enumvals": tuple(words(row["enumvals"]))})


def applied_from_json(values: Json) -> Applied:
    """Rebuild an `Applied`."""
    found = {name: str(value) for name, value in mapping(values["values"]).items()}
    outage = values.get("outage_s")
    return Applied(
        restarted=bool(values["restarted"]),
        seconds=float(str(values["seconds"])),
        values=found,
        fingerprint=str(values["fingerprint"]),
        outage_s=None if outage is None else float(str(outage)),
    )


def restored_from_json(values: Json) -> Restored:
    """Rebuild a `Restored`."""
    return Restored(
        files=tuple(words(values["files"])),
        settings_differences=tuple(_difference(mapping(item)) for item in items(values["settings_differences"])),
        restarted=bool(values["restarted"]),
        seconds=float(str(values["seconds"])),
        damage=tuple(words(values["damage"])),
        ended=tuple(words(values["ended"])),
        already_closed=bool(values["already_closed"]),
    )


def reading_from_json(values: Json) -> DistantReading:
    """Rebuild a reading of the host."""
    texts = mapping(values["texts"])
    devices, server = texts["devices"], values["server_cpu_s"]
    return DistantReading(
        HostTexts(
            {name: str(text) for name, text in mapping(texts["texts"]).items()},
            {name: str(text) for name, text in mapping(texts["failures"]).items()},
            None if devices is None else frozenset(words(devices)),
            int(str(texts["ticks_per_s"])),
            int(str(texts["page_size"])),
        ),
        None if server is None else float(str(server)),
        float(str(values["own_cpu_s"])),
    )


def info_to_json(info: BundleInfo) -> dict[str, object]:
    """Return how a session on the host stands, with its manifest."""
    manifest = None if info.bundle is None else info.bundle.manifest.to_json()
    rest = {"state": info.state.value, "applied": info.applied, "damage": info.damage, "closed_by": info.closed_by}
    return {"directory": str(info.directory), "manifest": manifest, **rest}


def info_from_json(values: Json) -> BundleInfo:
    """Rebuild it. The bundle's files are on the host: only its manifest can be read here."""
    directory = Path(str(values["directory"]))
    manifest = values["manifest"]
    bundle = None if manifest is None else UndoBundle(directory, Manifest.from_json(mapping(manifest)))
    state, applied = SessionState(str(values["state"])), int(str(values["applied"]))
    return BundleInfo(directory, bundle, state, applied, _text(values["damage"]), _text(values["closed_by"]))


def mapping(value: object) -> Json:
    """Return a JSON object. Raises ValueError on anything else."""
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def items(value: object) -> Sequence[object]:
    """Return a JSON array. Raises ValueError on anything else."""
    if not isinstance(value, list | tuple):
        raise ValueError("not a JSON array")
    return value


def words(value: object) -> list[str]:
    """Return a JSON array of texts."""
    return [str(item) for item in items(value)]


def _difference(values: Json) -> SettingDifference:
    before, after = (None if values[side] is None else state_of(mapping(values[side])) for side in ("before", "after"))
    return SettingDifference(str(values["name"]), before, after)


def _known(value: object) -> object:
    if isinstance(value, dict) and value.keys() == {"unknown"}:
        return Unknown(str(value["unknown"]))
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)
