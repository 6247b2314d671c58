"""Fit what another host said into our dataclasses, strictly by their annotations. Pure.

The agent is this very version, so that a field of another type, one too many or one too few is no version's: it is
something else that speaks there, and the rest of pgdyno need not be ready for it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pgdyno.model.facts import Unknown

T = TypeVar("T")


def shaped(kind: type[T], value: object, where: str = "the answer") -> T:
    """Return a JSON value as this type; a dataclass that is one already has its fields checked.

    Raises ValueError that names the field on anything that does not fit.
    """
    return cast(T, _shaped(kind, value, where))


def _shaped(kind: Any, value: object, where: str) -> object:  # noqa: ANN401 - annotations are of many types
    origin, parts = get_origin(kind), get_args(kind)
    if kind in (object, Any):
        return value
    if origin in (Union, types.UnionType):
        return _one_of(parts, value, where)
    if origin in (tuple, list, set, frozenset):
        return _several(origin, parts, value, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise _odd(value, where)
        return {key: _shaped(parts[1], item, f"{where}.{key[:40]}") for key, item in value.items()}
    if kind is Unknown:
        return value if isinstance(value, Unknown) else Unknown(_reason(value, where))
    if kind is float and type(value) is int:
        return float(value)
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    if is_dataclass(kind):
        return _built(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if type(value) is not kind:
        raise _odd(value, where)
    return value


def _one_of(kinds: tuple[Any, ...], value: object, where: str) -> object:
    for kind in kinds:
        try:
            return _shaped(kind, value, where)
        except ValueError:
            continue
    raise _odd(value, where)


def _several(origin: Any, parts: tuple[Any, ...], value: object, where: str) -> object:  # noqa: ANN401 - an annotation, see `_shaped`
    if not isinstance(value, list | tuple | frozenset | set):
        raise _odd(value, where)
    if origin is tuple and parts[-1:] != (...,):
        if len(parts) != len(value):
            raise _odd(value, where)
        return tuple(_shaped(kind, item, where) for kind, item in zip(parts, value, strict=True))
    return origin(_shaped(parts[0], item, f"{where}[{at}]") for at, item in enumerate(value))


def _built(kind: Any, value: object, where: str) -> object:  # noqa: ANN401 - an annotation, see `_shaped`
    hints = _hints(kind)
    if isinstance(value, kind):
        for name, hint in hints.items():
            _shaped(hint, getattr(value, name), f"{where}.{name}")
        return value
    if not isinstance(value, Mapping) or not value.keys() <= hints.keys():
        raise _odd(value, where)
    absent = [name for name in _required(kind) if name not in value]
    if absent:
        raise ValueError(f"{where} has no {absent[0]}")
    return kind(**{name: _shaped(hints[name], item, f"{where}.{name}") for name, item in value.items()})


@cache
def _hints(kind: Any) -> dict[str, object]:  # noqa: ANN401 - an annotation, see `_shaped`
    known = get_type_hints(kind)
    return {field.name: known[field.name] for field in fields(cast(Any, kind)) if field.init}


@cache
def _required(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - an annotation, see `_shaped`
    every = fields(cast(Any, kind))
    return tuple(one.name for one in every if one.init and one.default is MISSING and one.default_factory is MISSING)


def _reason(value: object, where: str) -> str:
    if not isinstance(value, Mapping) or value.keys() != {"unknown"} or not isinstance(value["unknown"], str):
        raise _odd(value, where)
    return value["unknown"]


def _odd(value: object, where: str) -> ValueError:
    return ValueError(f"{where} is {value!r:.60}, which it cannot be")
