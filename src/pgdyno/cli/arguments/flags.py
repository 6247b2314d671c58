"""The flags of a verb as one frozen dataclass: click parses by its fields, and the type checker checks what is read.

    class CutFlags(StoreFlag):
        trace: Path = argument("TRACE")
        seconds: float | None = flag("Up to here.", "--to", type=click.FloatRange(0))
        users: tuple[str, ...] = flag("Only this role's statements; may be given again.", "--user")

    @verb("cut")
    def command(flags: CutFlags) -> int: ...

The type says what click makes of the words: `bool` is a switch, `tuple[str, ...]` may be given again, `tuple[int, int]`
takes two words; what may be left out and has no default is `... | None`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    NamedTuple,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import click

from pgdyno.cli.arguments.help_groups import GroupedCommand
from pgdyno.errors import UsageError

T = TypeVar("T")
ENDING = ("report", "resume", "yes", "as_json", "store_url")
"""What a verb has of these is listed last, in this order."""
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
NEW_FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


class _Declared(NamedTuple):
    names: Sequence[str]
    settings: dict[str, Any]
    is_argument: bool = False


@overload
def flag(help: str, *names: str, default: T, **settings: object) -> T: ...
@overload
def flag(help: str, *names: str, **settings: object) -> Any: ...  # noqa: ANN401 - stands for a field of any type, as dataclasses.field does
def flag(help: str, *names: str, **settings: object) -> Any:
    """Declare a flag: what help says of it, its names where the field's does not do, and settings of `click.option`.

    A name is needed where it is not the field's, or is short: `"-c"` beside `--clients`. Help shows a default.
    """
    return _Declared(names, {"help": help, **settings})


def argument(metavar: str, **settings: object) -> Any:  # noqa: ANN401 - stands for a field of any type, as dataclasses.field does
    """Declare what is given without a flag: how help calls it, and settings of `click.argument`."""
    return _Declared((), {"metavar": metavar, **settings}, is_argument=True)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(flag, argument))
class Flags:
    """What was typed after a verb, parsed and checked; a dataclass to the type checker, made in less time."""

    def __init__(self, **values: object) -> None:
        for name in _in_order(type(self)):
            vars(self)[name] = values[name] if name in values else getattr(self, name).settings["default"]

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return these flags of what click has parsed for a verb that has them, and others perhaps."""
        return cls(**values)

    def but(self, **values: object) -> Self:
        """Return the flags with other values."""
        return type(self)(**{**vars(self), **values})

    def into(self, kind: Callable[..., T], **others: object) -> T:
        """Return a dataclass whose fields are `others`, and the flags of the same names where they have no other.

        A flag of a field's name has the field's type or an other value: `tests/unit/cli/test_flag_fields.py`.
        """
        same = {one.name for one in fields(cast(Any, kind))} & vars(self).keys()
        return kind(**{name: vars(self)[name] for name in same} | others)


class JsonFlag(Flags):
    """What is printed is one JSON object."""

    as_json: bool = flag("Print one JSON object.", "--json")


def verb(
    name: str,
    group: click.Group | None = None,
    *,
    cls: type[click.Command] = GroupedCommand,
    **settings: Any,  # noqa: ANN401 - passed on to `cls`, each of which takes others
) -> Callable[[Callable[[Any], object]], click.Command]:
    """Return what makes a command of a function, with the flags that its parameter `flags` declares."""

    def made(function: Callable[[Any], object]) -> click.Command:
        kind = get_type_hints(function)["flags"]

        @wraps(function)
        def called(**values: object) -> object:
            return function(kind.of(values))

        command = cls(name, callback=called, params=list(_params(kind)), help=function.__doc__, **settings)
        if group is not None:
            group.add_command(command)
        return command

    return made


def least_and_most(name: str, pair: tuple[int, int]) -> tuple[int, int]:
    """Return a pair of whole numbers; UsageError when the first is above the second."""
    least, most = pair
    if least > most:
        raise UsageError(
            f"--{name} {least} {most}: the minimum is above the maximum",
            hint=f"Write the smaller number first: --{name} {most} {least}.",
        )
    return least, most


def two_sides(word: str, what: str, form: str, example: str) -> tuple[str, str]:
    """Return what is left and right of the `=`; UsageError that names `what` and the `form` when one is missing.

    `word` is what was typed for `what`, a flag or a noun. `form` is its pattern, such as KNOB=VALUE; `example` is what
    the hint says to write.
    """
    left, _, right = (side.strip() for side in word.partition("="))
    if not left or not right:
        raise UsageError(f'{what} "{word}" is not {form}', hint=f"Write it as {example}.")
    return left, right


def _params(kind: type[Flags]) -> Iterator[click.Parameter]:
    types = get_type_hints(kind)
    declared: dict[str, _Declared] = {name: getattr(kind, name) for name in _in_order(kind)}

    def place(name: str) -> int:
        return -1 if declared[name].is_argument else 1 + ENDING.index(name) if name in ENDING else 0

    for name in sorted(declared, key=place):
        given, settings, is_argument = declared[name]
        is_optional, parts = NoneType in get_args(types[name]), _parts(types[name])
        needed = {"required": not is_optional and "default" not in settings}
        if parts[0] is not bool:
            settings = {"type": click.Path(path_type=Path) if parts[0] is Path else parts[0], **settings}
        if is_argument:
            yield click.Argument([name], **{**needed, "nargs": -1 if ... in parts else 1, **settings})
            continue
        if not any(one.startswith("--") for one in given):
            given = (f"--{name.replace('_', '-')}", *given)
        if parts[0] is bool:
            settings = {"is_flag": True, **settings}
        elif ... in parts:
            settings = {"multiple": True, **settings}
        else:
            settings = {**needed, "nargs": len(parts), "show_default": "default" in settings, **settings}
        yield _Option([name, *given], **settings)


class _Option(click.Option):
    """An option that takes no flag of its verb for its value: what is typed after `--ab A.conf` is often the next one.

    A file of such a name is `./--json`.
    """

    def type_cast_value(self, ctx: click.Context, value: object) -> object:
        """Return the value as its type. Raises BadParameter where a word of it is a flag."""
        words = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        if doubtful := [word for word in words if isinstance(word, str) and word.startswith("-")]:
            names = {name for one in ctx.command.get_params(ctx) for name in (*one.opts, *one.secondary_opts)}
            if flags := [word for word in doubtful if word.partition("=")[0] in names]:
                wanted = "one word" if self.nargs == 1 else f"{self.nargs} words"
                raise click.BadParameter(f"it takes {wanted}, and {flags[0]} is a flag itself", ctx, self)
        return super().type_cast_value(ctx, value)


def _parts(annotation: object) -> tuple[Any, ...]:
    """Return the types of the words of a flag: of `tuple[str, ...] | None` they are `str, ...`."""
    whole = next((one for one in get_args(annotation) if get_origin(annotation) is UnionType), annotation)
    return get_args(whole) if get_origin(whole) is tuple else (whole,)


def _in_order(kind: type[Flags]) -> Iterator[str]:
    """Yield the fields: those of the bases, as they are listed, then the class's own."""
    for base in kind.__bases__:
        if issubclass(base, Flags) and base is not Flags:
            yield from _in_order(base)
    yield from kind.__annotations__
