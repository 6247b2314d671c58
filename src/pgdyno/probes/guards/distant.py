"""What guards watch on a host that is not this one: read there by the same code, taken up here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from pgdyno.model.guard import Absent, Failed
from pgdyno.probes.guards.memory import MemoryReading, OwnKills
from pgdyno.probes.guards.volumes import Volume, VolumesReading

Json = Mapping[str, object]


def to_json(memory: MemoryReading | Absent | Failed, volumes: VolumesReading | Absent | Failed) -> dict[str, object]:
    """Return both readings, what is absent or failed by its kind."""
    return {"memory": _tagged(memory), "volumes": _tagged(volumes)}


def memory_from_json(values: Json) -> MemoryReading | Absent | Failed:
    """Rebuild the memory. Raises KeyError or ValueError on what `to_json` did not make."""
    given = _mapping(values["memory"])
    return _missing(given) or MemoryReading(
        available=_whole(given["available"]),
        bound=_whole(given["bound"]),
        bounded_by=str(given["bounded_by"]),
        stalled_us=_count(given["stalled_us"]),
        kills=_whole(given["kills"]),
        swapped_in=_count(given["swapped_in"]),
        own_kills=_own_kills(_mapping(given["own_kills"])),
    )


def volumes_from_json(values: Json) -> VolumesReading | Absent | Failed:
    """Rebuild the volumes. Errors as `memory_from_json`."""
    given = _mapping(values["volumes"])
    missing = _missing(given)
    if missing is not None:
        return missing
    wal = _mapping(given["wal"])
    absent = Absent(str(wal["reason"])) if "reason" in wal else None
    return VolumesReading(_volume(_mapping(given["data"])), absent or _volume(wal), _whole(given["temp_bytes"]))


def _tagged(value: object) -> dict[str, object]:
    if isinstance(value, Absent | Failed):
        return {"missing": type(value).__name__, "reason": value.reason}
    assert isinstance(value, MemoryReading | VolumesReading), "a reading, or why there is none"
    return asdict(value)


def _missing(given: Json) -> Absent | Failed | None:
    if "missing" not in given:
        return None
    reason = str(given["reason"])
    return Absent(reason) if given["missing"] == "Absent" else Failed(reason)


def _volume(given: Json) -> Volume:
    return Volume(_whole(given["free"]), _whole(given["size"]), Path(str(given["path"])))


def _own_kills(given: Json) -> OwnKills | Absent:
    if "reason" in given:
        return Absent(str(given["reason"]))
    return OwnKills(str(given["group"]), _whole(given["count"]))


def _count(value: object) -> int | Absent:
    return Absent(str(value["reason"])) if isinstance(value, dict) else _whole(value)


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no count")
    return value


def _mapping(value: object) -> Json:
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
