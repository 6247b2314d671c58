"""What a shell is told at the press of a key: values of flags and arguments that only the catalogue or a store knows.

A parameter is known by what help calls its value (STUDY, KNOB, RULE), so that a new flag is completed without a word
about it here. Nothing heavy is loaded, no server is asked, and whatever goes wrong completes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from pgdyno.outside.words import printable

VARIABLE = "_PGDYNO_COMPLETE"
"""The variable by which a shell's script asks; click reads it."""
_PLAIN = re.compile(r"[\w.:/@+-]+")
"""Words that a shell takes as one word; the id of an imported study is as others wrote it."""
Source = Callable[[click.Context], Iterator[CompletionItem]]


def answer(command: click.Command, program: str) -> NoReturn:
    """Print what could come next and end; a defect must not write into somebody's prompt."""
    with suppress(Exception):
        command.main(prog_name=program, complete_var=VARIABLE)
    raise SystemExit(1)


def let_complete(param: click.Parameter) -> None:
    """Give a parameter the words that its values can be."""
    called = re.findall(r"[A-Z]+", str(param.metavar or param.name).upper())
    source = next((source for word, source in _SOURCES.items() if word in called), None)
    if source is None:
        return
    words = source

    def complete(context: click.Context, incomplete: str) -> list[CompletionItem]:
        return [item for item in words(context) if item.value.startswith(incomplete) and _PLAIN.fullmatch(item.value)]

    vars(param)["shell_complete"] = complete  # where its constructor puts one; ours has been called


def _knobs(_: click.Context) -> Iterator[CompletionItem]:
    from pgdyno.knobs.names import knob_names

    yield from map(CompletionItem, knob_names())


def _rules(_: click.Context) -> Iterator[CompletionItem]:
    import tomllib

    from pgdyno.advisor import rules

    for file in sorted(Path(str(rules.__file__)).parent.glob("*.toml")):
        for rule in tomllib.loads(file.read_text("utf-8"))["rule"]:
            yield CompletionItem(rule["id"], help=rule["title"])


def _studies(context: click.Context) -> Iterator[CompletionItem]:
    from pgdyno.server import places
    from pgdyno.store.study_names import newest_studies

    named = context.params.get("store_url") or os.environ.get("PGDYNO_STORE")
    path = Path(str(named)) if named else places.data_dir() / "pgdyno.db"
    yield CompletionItem("last", help="the newest study")
    for study, name in newest_studies(path):
        yield CompletionItem(study, help=printable(name))


_SOURCES: dict[str, Source] = {"STUDY": _studies, "STUDIES": _studies, "KNOB": _knobs, "RULE": _rules}
