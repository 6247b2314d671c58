"""Results for tests that care for a few members: all that is not given is empty, zero or the first word there is."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin

from pgdyno.model.results.parts import StudyResult
from pgdyno.model.shapes import members_of, shaped
from pgdyno.model.study import StudyKind, result_type


def made(kind: StudyKind, told: Mapping[str, object]) -> StudyResult:
    """Return a result of this kind with these members, as JSON has them."""
    return part(result_type(kind), told)


def part(kind: Any, told: Mapping[str, object]) -> Any:
    """Return a value of a result's type with these members, as JSON has them."""
    return shaped(kind, _filled(kind, told), "the example", strict=False)


def _filled(kind: Any, told: object) -> object:
    origin, parts = get_origin(kind), [one for one in get_args(kind) if one is not ...]
    if told is None:
        return None
    if origin in (Union, types.UnionType):
        return _filled(parts[0], told)
    if origin is tuple and isinstance(told, list | tuple):
        return [_filled(parts[min(at, len(parts) - 1)], one) for at, one in enumerate(told)]
    if origin is not None and isinstance(told, Mapping):
        return {name: _filled(parts[1], one) for name, one in told.items()}
    if hasattr(kind, "FORM"):
        return _filled(kind.FORM, told)
    if not is_dataclass(kind) or not isinstance(told, Mapping):
        return told
    found: dict[str, object] = {}
    for one in members_of(kind):
        if not one.key:
            flat = _filled(one.hint, told)
            found |= flat if isinstance(flat, dict) else {}
        elif one.key in told:
            found[one.key] = _filled(one.hint, told[one.key])
        elif one.default is MISSING:
            found[one.key] = _empty(one.hint)
    return found


def _empty(kind: Any) -> object:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return None
    if origin is tuple:
        return [0.0 for _ in get_args(kind)] if ... not in get_args(kind) else []
    if origin is not None:
        return {}
    if hasattr(kind, "FORM") or is_dataclass(kind):
        return _filled(kind, {})
    return next(iter(kind)).value if issubclass(kind, Enum) else kind()
