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
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from pgdyno import errors
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.linux.host_texts import DistantReading
from pgdyno.model.shapes import shaped
from pgdyno.outside.documents import load_json
from pgdyno.outside.numbers import longest_run
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.manifest import Manifest
from pgdyno.undo.rollback import BundleInfo, SessionState

Json = Mapping[str, object]
_ERRORS = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, PgdynoError)
}
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_SESSION = re.compile(r"[\w.+-]{1,200}", re.ASCII)
_LONGEST_REASON = 500
_MOST_TICKS, _LARGEST_PAGE = 1_000_000, 1 << 30


def to_line(message: Json) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes) -> Json:
    """Read a line. Raises ValueError on what is no message.

    Halves of surrogate pairs, which a path of the host may hold, become question marks.
    """
    message = load_json(line, strict=False)
    if _HALF.search(line):
        message = json.loads(json.dumps(message, ensure_ascii=False).encode(errors="replace"))
    return mapping(message)


def error_to_json(error: PgdynoError) -> dict[str, object]:
    """Return an error of our tree."""
    name = type(error).__name__
    return {"class": name, "message": error.message, "detail": error.detail, "hint": error.hint}


def error_from_json(values: Json) -> PgdynoError:
    """Return the same error; a class that this version does not know becomes EnvironmentUnsuitable.

    Raises ValueError on what `error_to_json` did not make. No class of anything but our own errors is ever made.
    """
    kind = _ERRORS.get(str(values.get("class")), EnvironmentUnsuitable)
    message = _text(values.get("message"))
    return kind(message or "no reason was given", detail=_text(values.get("detail")), hint=_text(values.get("hint")))


def reading_from_json(values: object) -> DistantReading:
    """Rebuild a reading of the host. Raises ValueError also for texts that no kernel writes."""
    reading = shaped(DistantReading, values)
    texts = reading.texts
    if not 0 < texts.ticks_per_s <= _MOST_TICKS or not 0 < texts.page_size <= _LARGEST_PAGE:
        raise ValueError(f"{texts.ticks_per_s} ticks a second, or pages of {texts.page_size} bytes, are no machine's")
    if any(longest_run(text) for text in texts.texts.values()):
        raise ValueError("a number that no kernel writes")
    return reading


def info_to_json(info: BundleInfo) -> dict[str, object]:
    """Return how a session on the host stands, with its manifest."""
    manifest = None if info.bundle is None else asdict(info.bundle.manifest)
    rest = {"state": info.state.value, "applied": info.applied, "damage": info.damage, "closed_by": info.closed_by}
    return {"directory": str(info.directory), "manifest": manifest, **rest}


def info_from_json(values: Json) -> BundleInfo:
    """Rebuild it. The bundle's files are on the host: only its manifest can be read here."""
    directory = shaped(Path, values.get("directory"))
    if directory.name != str(directory).rpartition("/")[2] or not _SESSION.fullmatch(directory.name):
        raise ValueError(f"{str(directory)!r:.60} is not the folder of a session")
    manifest, found = values.get("manifest"), None
    if manifest is not None:
        try:
            found = shaped(Manifest, Manifest.from_json(mapping(manifest)), "the manifest")
            datetime.fromtimestamp(found.created_at, UTC)
        except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"a manifest has no usable {error}") from error
    rest = {name: values.get(name) for name in ("state", "applied", "damage", "closed_by")}
    return BundleInfo(
        directory,
        None if found is None else UndoBundle(directory, found),
        shaped(SessionState, rest["state"]),
        shaped(int, rest["applied"]),
        _text(rest["damage"]),
        _text(rest["closed_by"]),
    )


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
    """Return a JSON array of texts. Raises ValueError on anything else."""
    return shaped(list[str], value)


@contextmanager
def understood(host: str) -> Iterator[None]:
    """Turn what is no answer of an agent into an error: whatever else goes wrong with it came from that host."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, psycopg.Error) as error:
        raise EnvironmentUnsuitable(
            f"{host} answered what no agent of pgdyno says",
            detail=f"{type(error).__name__}: {error}"[:_LONGEST_REASON],
            hint="See what runs there: pgdyno host check.",
        ) from error


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is no text")
    return value
