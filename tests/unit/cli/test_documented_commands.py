"""Every `pgdyno ...` that a document shows is one that the program would take: verbs, flags and values are real."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pgdyno.cli.main import VERBS, command
from pgdyno.errors import UsageError

PROJECT = Path(__file__).parents[3]
GENERATED = ("cli.md", "requirements-coverage.md")
DOCUMENTS = [
    path
    for path in sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("examples/**/*.md")])
    if path.name not in GENERATED
]
FENCE = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^    .*\n?)+", re.MULTILINE)
INLINE = re.compile(r"`(pgdyno [^`]+)`")
PROGRAM = re.compile(r"(?:^|(?<=[\s(]))(?:sudo |\S*/)?pgdyno (?=[a-z-])")
END = frozenset({"|", ";", "&&", "||", ">", ">>", "<", "2>", "&"})
ANYTHING = "..."
NUMBERS = {"SECONDS": "30", "RUN": "12", "N": "2"}
"""Words of documents that stand for numbers."""


def shown(text: str) -> Iterator[list[str]]:
    """Yield the words of each call of pgdyno in the blocks of a document, without the program's name."""
    blocks = [*FENCE.findall(text), *INDENTED.findall(FENCE.sub("", text))]
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        if PROGRAM.search(line) and not line.lstrip().startswith("#"):
            yield from _calls(line)


def mentioned(text: str) -> Iterator[list[str]]:
    """Yield the words of each call of pgdyno that stands in a sentence, as `code`."""
    for code in INLINE.findall(INDENTED.sub("", FENCE.sub("", text)).replace("\n", " ")):
        yield from _calls(code)


def _calls(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    words: list[str] | None = None
    for word in lexer:
        if word in END:
            if words is not None:
                yield words
            words = None
        elif words is None and word.rpartition("/")[2] == "pgdyno":
            words = []
        elif words is not None:
            words.append(NUMBERS.get(word.strip("[]"), word.strip("[]")))
    if words is not None:
        yield words


def refusal(words: list[str], mention: bool = False) -> str | None:
    """Return what the program has against the words, None when it would take them; nothing is run.

    A mention may name a flag or a verb without its values. `...` is a value, or flags that are left to the reader.
    """
    without = [word for word in words if word != ANYTHING]
    first = _refusal(words, mention)
    return first if first is None or without == words else _refusal(without, mention=True)


def _refusal(words: list[str], mention: bool) -> str | None:
    try:
        _parse(words)
    except (click.MissingParameter, click.BadOptionUsage) as error:
        return None if mention else error.format_message()
    except click.exceptions.NoArgsIsHelpError:
        return None if mention else "needs a verb"
    except click.UsageError as error:
        return None if "does not exist" in error.message else error.format_message()  # a file of the reader's
    except UsageError as error:
        return None if error.message.endswith("cannot be read") else error.message
    except click.exceptions.Exit:
        return None  # --help and --version
    return None


def _parse(words: list[str]) -> None:
    verb: click.Command = command
    context = verb.make_context("pgdyno", list(words))
    while isinstance(verb, click.Group):
        name, found, rest = verb.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        verb, context = found, found.make_context(name, rest, parent=context)
    if context.command_path == "pgdyno queue add":
        _parse(list(context.params["words"]))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_what_a_document_shows_is_taken(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)  # plans are read for their defaults, and those of examples/ are there
    text = document.read_text("utf-8")
    answers = [(" ".join(words), refusal(words)) for words in shown(text)]
    answers += [(" ".join(words), refusal(words, mention=True)) for words in mentioned(text)]
    assert [(line, why) for line, why in answers if why is not None] == []


IN_A_RULE = re.compile(r"pgdyno ([a-z]+)((?: --[a-z][a-z-]*(?: (?!--)[^\s`]+)?)+)")
"""A verb with its flags in a sentence of a rule, which has no marks around it."""
RULES = [path for kind in ("*.toml", "*.py") for path in sorted((PROJECT / "src/pgdyno/advisor").rglob(kind))]


def test_what_a_rule_tells_people_to_call_is_taken() -> None:
    called = set()
    for path in RULES:
        text = re.sub(r'"\n\s*f?"', "", path.read_text("utf-8").replace("\\\n", ""))
        called |= {(verb, flag) for verb, flags in IN_A_RULE.findall(text) for flag in re.findall(r"--[a-z-]+", flags)}
    assert {("advise", "--plan"), ("experiment", "--rule"), ("experiment", "--sweep")} <= called
    assert {call: why for call in called if (why := refusal(list(call), mention=True)) is not None} == {}


def test_the_documents_show_many_commands() -> None:
    assert sum(len(list(shown(document.read_text("utf-8")))) for document in DOCUMENTS) > 120


@pytest.mark.parametrize(
    "line",
    [
        "pgdyno tune --no-such-flag",
        "pgdyno tune --no-such-flag ...",
        "pgdyno no-such-verb",
        "pgdyno store show",
        "pgdyno bench -w no-such-load",
        "pgdyno queue add -- tune --no-such-flag",
        "cd x && sudo pgdyno bench --measure 1 | head",
    ],
)
def test_what_the_program_does_not_know_is_refused(line: str) -> None:
    (words,) = shown(f"    {line}\n")
    assert refusal(words) is not None


SOURCES = sorted((PROJECT / "src/pgdyno").rglob("*.py"))
GROUPS = {one for one in VERBS if isinstance(command.get_command(click.Context(command), one), click.Group)}
CALLED = re.compile(r"pgdyno ([a-z]+)((?: [^.;:,()`\"\n ]+)*)")
NAMED = re.compile(r"pgdyno(?![._])")
"""The program, and not its package: two of three modules need not be parsed."""


def messages(path: Path) -> Iterator[str]:
    """Yield the texts of a module that a user may read, with `X` for what is filled in."""
    text = path.read_text("utf-8")
    parts = [*ast.walk(ast.parse(text if NAMED.search(text) else ""))]
    inside = {id(part) for text in parts if isinstance(text, ast.JoinedStr) for part in text.values}
    for one in parts:
        if isinstance(one, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in one.values)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in inside:
            yield one.value


def test_what_a_message_of_the_program_tells_people_to_call_is_taken() -> None:
    called = set()
    for path in SOURCES:
        for verb, rest in CALLED.findall("\n".join(messages(path))):
            if verb in VERBS and verb != "queue":  # the words of another verb follow it
                words = rest.split()
                under = words[:1] if words and verb in GROUPS and words[0].isalpha() and words[0].islower() else []
                called |= {(verb, *under, flag) for flag in re.findall(r"--[a-z-]+", rest)} | {(verb, *under)}
    assert {("rollback", "--list"), ("apply", "--study"), ("store", "show"), ("sandbox", "recreate")} <= called
    assert {call: why for call in called if (why := refusal(list(call), mention=True)) is not None} == {}
