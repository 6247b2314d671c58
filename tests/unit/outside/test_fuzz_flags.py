"""Every verb with hostile flags: an answer or one error, a documented exit code, no defect, bounded time and memory.

Nothing is started: a server is looked for where none can be, and no sandbox may begin.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fix_judged_runs import JudgedRuns
from hostile_words import CASES, WORDS, furnish
from pgdyno.cli import main
from pgdyno.errors import EnvironmentUnsuitable

CODES = {0, 1, 2, 3, 4, 5, 6, 130}
_ENDLESS = {"serve", "demo", "selftest", "queue run"}
"""Verbs that would go on when all of their flags are right: each gets one that no verb has."""


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(main.command)
    for verb in main.VERBS:
        yield from _below((verb,), main.command.get_command(context, verb))  # type: ignore[attr-defined]


def _below(words: tuple[str, ...], found: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(found, click.Group):
        for name, child in found.commands.items():
            yield from _below((*words, name), child)
    else:
        yield words, found


VERBS = list(commands())


def drawn(draw: random.Random) -> list[str]:
    """Return the words of one call: a verb with some of its flags, and words where it takes some."""
    words, verb = draw.choice(VERBS)
    argv = list(words)
    params = list(verb.params)
    for param in draw.sample(params, draw.randrange(min(len(params), 6) + 1)):
        if isinstance(param, click.Argument):
            count = draw.randrange(3) if param.nargs < 0 else param.nargs
            argv += [_word(param, draw) for _ in range(count)]
        elif isinstance(param, click.Option) and param.opts:
            argv.append(draw.choice([*param.opts, *param.secondary_opts]))
            if not param.is_flag and not param.count:
                argv += [_word(param, draw) for _ in range(max(1, param.nargs))]
    if draw.random() < 0.1:
        argv.append(draw.choice(WORDS))
    if " ".join(words) in _ENDLESS:
        argv.append("--no-such-flag")
    return [word.replace("\0", "") for word in argv]


def _word(param: click.Parameter, draw: random.Random) -> str:
    if isinstance(param.type, click.Choice) and draw.random() < 0.7:
        return str(draw.choice(list(param.type.choices)))
    if isinstance(param.type, click.types.IntParamType | click.types.FloatParamType) and draw.random() < 0.5:
        return str(draw.randrange(1, 4))
    return draw.choice(WORDS)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a furnished folder of a home of its own, where no server is, none begins and no ssh leads."""
    for name, value in {
        "PGDYNO_HOME": str(tmp_path / "home"),
        "PGHOST": "/nonexistent",
        "PGDYNO_SSH": "false",
        "HOME": str(tmp_path),
        "COLUMNS": "100",
    }.items():
        monkeypatch.setenv(name, value)

    def refuse(*_args: object, **_options: object) -> None:
        raise EnvironmentUnsuitable("no server begins in this test")

    def unreachable(*_args: object) -> None:
        raise ConnectionRefusedError(111, "no network in this test")

    monkeypatch.setattr("pgdyno.sandbox.sandbox.Sandbox.ensure", refuse, raising=False)
    monkeypatch.setattr("pgdyno.sandbox.cluster.create", refuse, raising=False)
    monkeypatch.setattr("pgdyno.owner.runner.LocalRunner.run", refuse)
    monkeypatch.setattr("subprocess.Popen", refuse)
    monkeypatch.setattr("socket.socket.connect", unreachable)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    furnish(work)
    return work


@pytest.mark.timeout(3600)
def test_no_flags_make_a_defect(nowhere: Path, judged_runs: JudgedRuns) -> None:
    for _ in range(CASES):
        judged_runs.run(drawn(judged_runs.draw), CODES)
    judged_runs.conclude()
