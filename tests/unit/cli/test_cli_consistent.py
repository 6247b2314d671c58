"""One flag has one name, one letter and one meaning over all verbs."""

from collections import defaultdict
from collections.abc import Iterator

import click

from pgdyno.cli.arguments.help_groups import FEW, GroupedCommand
from pgdyno.cli.main import VERBS, command

READING = (
    "store list", "store show", "store changes", "queue list", "knobs list", "knobs show", "knobs host", "rules",
    "guards", "preflight", "privileges", "inspect", "advise", "compare", "disks", "rollback", "sandbox list",
    "sandbox status", "bundle show", "trace show", "trace check", "project check", "ybio classes", "host check",
)  # fmt: skip
LETTERS_OF_PGBENCH = {"-s", "-b", "-r"}
"""Those of a matrix, which has pgbench's."""


def verbs() -> Iterator[tuple[str, click.Command]]:
    root = click.Context(command)
    for name in VERBS:
        verb = command.get_command(root, name)
        assert verb is not None
        yield from flattened(name, verb)


def flattened(name: str, verb: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, verb
    for child, below in verb.commands.items() if isinstance(verb, click.Group) else ():
        yield from flattened(f"{name} {child}", below)


def options() -> Iterator[tuple[str, click.Option]]:
    for name, verb in verbs():
        yield from ((name, param) for param in verb.params if isinstance(param, click.Option))


def test_a_letter_stands_for_one_thing() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for _, option in options():
        for letter in (word for word in option.opts if len(word) == 2 and word not in LETTERS_OF_PGBENCH):
            meanings[letter].add("clients" if option.name == "users" else str(option.name))
    assert {letter: names for letter, names in meanings.items() if len(names) > 1} == {}


def test_a_flag_of_several_verbs_takes_one_kind_of_value() -> None:
    kinds: dict[str, set[bool]] = defaultdict(set)
    for _, option in options():
        for word in (word for word in option.opts if word in ("--json", "--store", "--yes", "--target", "--host")):
            kinds[word].add(option.is_flag)
    assert {word for word, found in kinds.items() if len(found) > 1} == set()


def test_every_verb_that_reads_has_json() -> None:
    known = dict(verbs())
    lacking = [name for name in READING if not any("--json" in param.opts for param in known[name].params)]
    assert lacking == []


def test_every_flag_says_what_it_does_and_shows_a_default_that_it_has() -> None:
    silent = [(name, option.opts[0]) for name, option in options() if not option.help and option.name != "help"]
    hidden = [
        (name, option.opts[0])
        for name, option in options()
        if isinstance(option.default, int | float | str)
        and not (option.is_flag or option.show_default or "[default:" in (option.help or ""))
    ]
    assert (silent, hidden) == ([], [])


def test_the_help_of_a_verb_with_many_flags_is_in_groups() -> None:
    def is_long(verb: click.Command) -> bool:
        context = click.Context(verb)
        return sum(one.get_help_record(context) is not None for one in verb.get_params(context)) > FEW

    assert {name: type(verb) for name, verb in verbs() if is_long(verb) and not isinstance(verb, GroupedCommand)} == {}
