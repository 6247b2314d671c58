"""Frozen dataclasses with slots, made in a quarter of the time: a start makes some two hundred of them.

`dataclass` of the standard library compiles up to seven functions for each class, one by one (3.11 and 3.12). Here only
`__init__` is compiled; equality, hash, repr and what refuses to assign are closures over the names of the fields. For
type checkers it is the library's own, and for what is not `frozen=True, slots=True`, has class variables or bases with
fields, it really is.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a class a dataclass, as the standard library's decorator of that name does."""

        def wrap(plain: type) -> type:
            return _made(plain, options) if _is_plain(plain, options) else dataclasses.dataclass(**options)(plain)

        return wrap if cls is None else wrap(cls)


_KNOWN = {"frozen", "slots", "eq", "kw_only"}
_SPECIAL = ("ClassVar", "InitVar", "KW_ONLY")
_NOT_GIVEN = object()


def _is_plain(cls: type, options: dict[str, bool]) -> bool:
    told = inspect.get_annotations(cls)
    return (
        bool(options.get("frozen") and options.get("slots"))
        and options.keys() <= _KNOWN
        and not any(hasattr(base, "__dataclass_fields__") for base in cls.__mro__[1:])
        and all(isinstance(kind, str) and not any(word in kind for word in _SPECIAL) for kind in told.values())
    )


def _made(plain: type, options: dict[str, bool]) -> type:
    has_eq = options.get("eq", True)
    kw_only = options.get("kw_only", False)
    cls: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(plain)
    fields, own = dataclasses.fields(cls), cls.__dict__
    names = frozenset(field.name for field in fields)
    cls.__init__ = _init(cls, fields)
    cls.__setattr__, cls.__delattr__ = _refusing(cls, names)
    added = {"__getstate__": _getstate, "__setstate__": _setstate, "__repr__": _telling(fields)}
    is_own_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    if has_eq and not is_own_hash:
        cls.__hash__ = _hashing(_values([f.name for f in fields if (f.compare if f.hash is None else f.hash)]))
    if has_eq:
        added["__eq__"] = _comparing(_values([field.name for field in fields if field.compare]))
    for name, function in added.items():
        if name not in own:
            setattr(cls, name, function)
    told = cls.__dataclass_params__
    told.init = told.repr = told.frozen = True
    told.eq = has_eq
    return cls  # type: ignore[no-any-return]


def _init(cls: Any, fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    """Compile `__init__`, which sets the slots themselves: nothing else may."""
    words: dict[str, Any] = {"_not_given": _NOT_GIVEN}
    ordered = sorted(fields, key=lambda field: field.kw_only is True)
    arguments, lines = ["self"], []
    for field in ordered:
        name, value = field.name, field.name
        words[f"_set_{name}"] = cls.__dict__[name].__set__
        default = ""
        if field.default_factory is not dataclasses.MISSING:
            words[f"_make_{name}"], default = field.default_factory, "=_not_given"
            value = f"_make_{name}() if {name} is _not_given else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            words[f"_default_{name}"], default = field.default, f"=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            continue
        if field.init:
            arguments += ["*"] if field.kw_only and "*" not in arguments else []
            arguments.append(f"{name}{default}")
        lines.append(f" _set_{name}(self, {value})")
    lines += [" self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    exec(f"def __init__({', '.join(arguments)}):\n" + "\n".join(lines or [" pass"]), words)  # noqa: S102 - names of fields
    made: Callable[..., None] = words["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {**{field.name: field.type for field in ordered if field.init}, "return": None}
    return made


def _values(names: list[str]) -> Callable[[Any], tuple[object, ...]]:
    """Return what gives the values of these fields, always as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _comparing(values: Callable[[Any], tuple[object, ...]]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hashing(values: Callable[[Any], tuple[object, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _telling(fields: tuple[dataclasses.Field[Any], ...]) -> Callable[[Any], str]:
    names = [field.name for field in fields if field.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refusing(cls: Any, names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _getstate(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
