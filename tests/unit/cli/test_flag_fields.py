"""A verb's flags are fields with types: what click parses by them is what the type checker is told."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pytest

import pgdyno.cli
from pgdyno.cli.arguments.flags import Flags, argument, flag, least_and_most, two_sides, verb
from pgdyno.cli.main import VERBS
from pgdyno.cli.main import command as program
from pgdyno.errors import UsageError

PARSED: dict[str, type] = {"integer": int, "whole number": int, "integer range": int, "float": float, "number": float}


class ToldFlags(Flags):
    trace: Path = argument("TRACE")
    count: int = flag("How many.", "-n", default=3, type=click.IntRange(1))
    level: float | None = flag("A level.", "--at", type=click.FloatRange(0))
    words: tuple[str, ...] = flag("Words.", "--word")
    pair: tuple[int, int] | None = flag("Two.")
    is_quiet: bool = flag("Say nothing.", "--quiet")
    keeps: bool = flag("Keep it.", "--keep/--discard", default=True)


class NamedFlags(ToldFlags):
    output: Path = flag("Write here.")


@verb("told")
def told(flags: NamedFlags) -> NamedFlags:
    """Tell."""
    return flags


def parsed(*words: str) -> NamedFlags:
    flags = told.main(list(words), standalone_mode=False)
    assert isinstance(flags, NamedFlags)
    return flags


def test_the_type_of_a_field_says_what_click_makes_of_the_words() -> None:
    flags = parsed("a.parquet", "--output", "out", "-n", "4", "--at", "1.5", "--word", "x", "--word", "y",
                   "--pair", "1", "2", "--quiet", "--discard")  # fmt: skip
    assert (flags.trace, flags.output, flags.count, flags.level) == (Path("a.parquet"), Path("out"), 4, 1.5)
    assert (flags.words, flags.pair, flags.is_quiet, flags.keeps) == (("x", "y"), (1, 2), True, False)


def test_what_is_left_out_is_its_default_or_nothing() -> None:
    flags = parsed("a.parquet", "--output", "out")
    assert (flags.count, flags.level, flags.words, flags.pair, flags.is_quiet) == (3, None, (), None, False)
    assert (flags.but(count=5).count, flags.count) == (5, 3)


@pytest.mark.parametrize("words", [("--output", "out"), ("a.parquet",)])
def test_a_field_that_may_not_be_none_must_be_given(words: tuple[str, ...]) -> None:
    with pytest.raises(click.MissingParameter):
        parsed(*words)


def test_help_has_fields_of_bases_first_and_shows_defaults() -> None:
    text = told.get_help(click.Context(told))
    assert all(words in text for words in ("-n, --count", "[default: 3; x>=1]", "[required]"))
    assert text.index("--count") < text.index("--output")


def test_a_minimum_above_the_maximum_is_told_with_the_other_order() -> None:
    with pytest.raises(UsageError, match="--pairs 8 4: the minimum is above") as caught:
        least_and_most("pairs", (8, 4))
    assert "--pairs 4 8" in str(caught.value.hint)


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(program)
    for word in VERBS:
        command = program.get_command(context, word)
        assert command is not None
        for name, one in command.commands.items() if isinstance(command, click.Group) else [("", command)]:
            yield f"{word} {name}".strip(), one


def flags_of(command: click.Command) -> type[Flags] | None:
    function: Any = getattr(command.callback, "__wrapped__", None)
    return None if function is None else get_type_hints(function).get("flags")


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in commands()])
def test_what_a_verb_reads_has_the_type_that_its_field_promises(name: str, command: click.Command) -> None:
    kind = flags_of(command)
    types = {} if kind is None else get_type_hints(kind)
    for param in command.params:
        if param.name not in types or param.nargs != 1 or getattr(param, "is_flag", False):
            continue
        promised = {part for part in (types[param.name], *get_args(types[param.name])) if isinstance(part, type)}
        made = Path if isinstance(param.type, click.Path) else PARSED.get(param.type.name, str)
        assert made in promised, f"{name}: {param.name} is parsed as {made.__name__}, and declared {types[param.name]}"


def test_no_verb_takes_its_flags_without_types() -> None:
    declared = 0
    for path in Path(pgdyno.cli.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                re.match(r"verb\(|\w+\.command\(", ast.unparse(one)) for one in node.decorator_list
            ):
                declared += 1
                assert node.args.kwarg is None, f"{path.name}: {node.lineno}"
    assert declared >= sum(not isinstance(command, click.Group) for _, command in commands())


@pytest.mark.parametrize("word", ["shared_buffers", "=1GB", "shared_buffers=", " = "])
def test_a_word_that_lacks_a_side_is_told_with_its_form(word: str) -> None:
    with pytest.raises(UsageError, match=f'--b "{word}" is not KNOB=VALUE') as caught:
        two_sides(word, "--b", "KNOB=VALUE", "--b work_mem=64MB")
    assert caught.value.hint == "Write it as --b work_mem=64MB."
    assert two_sides(" a = b=c ", "--b", "KNOB=VALUE", "") == ("a", "b=c")
