"""Fit plain JSON values into our dataclasses by their annotations, write them, and say their schema. Pure.

An agent is this very version, so that a field of another type, one too many or one too few is no version's: it is
something else that speaks there, and the rest of pgdyno need not be ready for it. What the store holds may be of
another version: read with `strict=False`, a field that is not known is passed over. A default stands for a field that
is missing. A type that is written unlike its fields has a FORM: the type of its plain value, with `form` and `of_form`.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Annotation: TypeAlias = Any
"""A class, a union or a generic type, as it stands behind a field: `typing` has no narrower name for that."""
_Reader = Callable[[Any, str], object]
_PLAIN = frozenset({bool, int, str, type(None)})


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be had, with the reason in words; never replaced by a default."""

    reason: str

    def __str__(self) -> str:
        return f"unknown ({self.reason})"


@dataclass(frozen=True, slots=True)
class Named:
    """Marks a field that has this name in JSON: `Annotated[str, Named("from")]`."""

    name: str


FLAT = "flat"
"""Marks a field whose members stand in JSON among those of the object that has it."""
OMITTED = "omitted"
"""Marks a field that is not written where it has its default."""


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A field as JSON has it; `key` is empty for one that is flat."""

    name: str
    key: str
    hint: Annotation
    default: object
    is_omitted: bool


@cache
def members_of(kind: Annotation) -> tuple[JsonMember, ...]:
    """Return the fields of a dataclass as JSON has them."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for one in fields(kind):
        hint, marks = hints[one.name], getattr(hints[one.name], "__metadata__", ())
        key = next((mark.name for mark in marks if isinstance(mark, Named)), one.name)
        default = one.default if one.default_factory is MISSING else one.default_factory()
        hint = hint.__origin__ if marks else hint
        found.append(JsonMember(one.name, "" if FLAT in marks else key, hint, default, OMITTED in marks))
    return tuple(found)


def shaped(kind: type[T], value: object, where: str = "the answer", *, strict: bool = True) -> T:
    """Return a JSON value as this type; a dataclass that is one already has its fields checked.

    `kind` is a dataclass, an enum, a type with a FORM, a plain type, or a union or collection of these. With `strict` a
    key that is no field of a dataclass is refused, without it passed over. Raises ValueError that names the field,
    below `where` as the place of `value`, on anything that does not fit.
    """
    return cast(T, _reader(cast(Any, kind), strict)(value, where))


def inner(values: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return the JSON object under this name; an empty one where there is none, or something else."""
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}


def taken_apart(kind: Annotation) -> tuple[Annotation, tuple[Annotation, ...]]:
    """Return the generic type behind an annotation, None where it is none, and what stands in its brackets."""
    return get_origin(kind), get_args(kind)


@cache
def _reader(kind: Annotation, strict: bool) -> _Reader:
    origin, parts = taken_apart(kind)
    if kind in (object, Any):
        return lambda value, where: value
    if origin in (Union, types.UnionType):
        return _one_of([_reader(part, strict) for part in parts])
    if origin in (tuple, list, set, frozenset):
        return _several(origin, parts, strict)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*parts, strict=strict)
    if kind is Unknown:
        return lambda value, where: value if isinstance(value, Unknown) else Unknown(_reason(value, where))
    if kind is Path:
        return lambda value, where: Path(value) if isinstance(value, str) and value else _same(Path, value, where)
    if hasattr(kind, "FORM"):
        return _formed(kind, strict)
    if is_dataclass(kind):
        return _built(kind, strict)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value, where: kind(value)
    if kind is float:
        return _float
    return lambda value, where: _same(kind, value, where)


def _float(value: object, where: str) -> object:
    if type(value) is not int:
        return _same(float, value, where)
    try:
        return float(value)
    except OverflowError:
        raise _odd("a number of hundreds of digits", where) from None


def _same(kind: Annotation, value: object, where: str) -> object:
    if type(value) is not kind:
        raise _odd(value, where)
    return value


def _one_of(readers: list[_Reader]) -> _Reader:
    def read(value: object, where: str) -> object:
        said: ValueError | None = None
        for reader in readers:
            try:
                return reader(value, where)
            except ValueError as error:
                said = said or error  # what is wrong inside an object tells more than that it is not None
        raise said if said is not None and isinstance(value, Mapping | list) else _odd(value, where)

    return read


def _several(origin: Annotation, parts: tuple[Annotation, ...], strict: bool) -> _Reader:
    def read(value: object, where: str) -> object:
        if not isinstance(value, list | tuple | frozenset | set):
            raise _odd(value, where)
        if not is_fixed:
            return origin(readers[0](item, f"{where}[{at}]") for at, item in enumerate(value))
        if len(readers) != len(value):
            raise _odd(value, where)
        return tuple(reader(item, where) for reader, item in zip(readers, value, strict=True))

    is_fixed = origin is tuple and parts[-1:] != (...,)
    readers = [_reader(part, strict) for part in parts if part is not ...]
    return read


def _mapping(key: Annotation, item: Annotation, *, strict: bool) -> _Reader:
    def read(value: object, where: str) -> object:
        if not isinstance(value, Mapping) or not all(isinstance(one, str | int) for one in value):
            raise _odd(value, where)
        return {key(one): reader(each, f"{where}.{str(one)[:40]}") for one, each in value.items()}

    reader = _reader(item, strict)
    return read


def _formed(kind: Annotation, strict: bool) -> _Reader:
    def read(value: object, where: str) -> object:
        if isinstance(value, kind):
            return value
        try:
            return kind.of_form(reader(value, where))
        except KeyError as error:
            raise ValueError(f"{where} has no {error.args[0]}") from error

    reader = _reader(kind.FORM, strict)
    return read


def _built(kind: Annotation, strict: bool) -> _Reader:
    def read(value: object, where: str) -> object:
        if isinstance(value, kind):
            for name, _, reader, _ in known:
                reader(getattr(value, name), f"{where}.{name}")
            return value
        if (type(value) is not dict and not isinstance(value, Mapping)) or (strict and not value.keys() <= keys):
            raise _odd(value, where)
        found = {}
        for name, key, reader, is_needed in known:
            if not key:
                found[name] = reader(value, where)
            elif key in value:
                item = value[key]  # most are plain and right, and ten thousand trials have half a million
                found[name] = item if type(item) in right[name] else reader(item, f"{where}.{key}")
            elif is_needed:
                raise ValueError(f"{where} has no {key}")
        return kind(**found)

    # a class may have itself among its fields: their readers are made when they are asked for
    known = [(one.name, one.key, _late(one.hint, strict), one.default is MISSING) for one in members_of(kind)]
    keys = frozenset(key for _, key, _, _ in known)
    right = {one.name: _right(one.hint) for one in members_of(kind)}
    return read


def _right(hint: Annotation) -> frozenset[type]:
    """Return the types of plain values that are taken as they are; none where others could be meant."""
    origin, parts = taken_apart(hint)
    kinds = frozenset(parts if origin in (Union, types.UnionType) else (hint,))
    if not kinds <= _PLAIN | {float}:
        return frozenset()
    return kinds - {int} if float in kinds else kinds


def _late(kind: Annotation, strict: bool) -> _Reader:
    return lambda value, where: _reader(kind, strict)(value, where)


def plain(value: object) -> Json:
    """Return plain JSON for a value made of dataclasses, mappings, sequences, sets, enums, paths and scalars.

    A set is written in order. A number that is not finite becomes null, as JSON has none; an `Unknown` becomes
    `{"unknown": reason}`. Raises TypeError on anything else.
    """
    if type(value) in _PLAIN:
        # Asked first, because most values are: ten thousand trials have half a million. By isinstance the enums below
        # would pass, too.
        return cast(Json, value)  # one of JSON's own types; mypy does not narrow by a set of types
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(type(value), "FORM"):
        return plain(cast(Any, value).form())
    if is_dataclass(value) and not isinstance(value, type):
        return _written(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, frozenset | set):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be kept as JSON: {value!r:.200}")


def _written(value: object) -> Json:
    found: dict[str, Json] = {}
    for one in members_of(cast(Any, type(value))):
        item = getattr(value, one.name)
        if one.is_omitted and item == one.default:
            continue
        if one.key:
            found[one.key] = plain(item)
        else:
            found |= cast(dict[str, Json], plain(item))
    return found


def _reason(value: object, where: str) -> str:
    if not isinstance(value, Mapping) or value.keys() != {"unknown"} or not isinstance(value["unknown"], str):
        raise _odd(value, where)
    return value["unknown"]


def _odd(value: object, where: str) -> ValueError:
    return ValueError(f"{where} is {value!r:.60}, which it cannot be")
