"""Jobs of the queue: their words checked and turned into those that go on, and the units of systemd that run them."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.target import TargetFlags, environment_names_server, target_request
from pgdyno.errors import UsageError

SERVICE, TIMER = "pgdyno-night.service", "pgdyno-night.timer"

if TYPE_CHECKING:
    from pgdyno.model.job import Job
    from pgdyno.model.study import Study
    from pgdyno.studies.session.target_request import TargetRequest

RUNS = ("bench", "experiment", "matrix", "noise", "selftest", "tune", "demo")
"""The verbs that measure and end by themselves with the server put back."""


def check_words(words: Sequence[str]) -> None:
    """Refuse words that could not run unattended. Raises UsageError that names the word.

    They are parsed as their verb does, so that a flag that does not exist is found now and not at night.
    """
    if not words:
        raise UsageError("a job needs a verb", hint="pgdyno queue add -- tune -w ybio --trials 40.")
    verb = words[0]
    if verb not in RUNS:
        raise UsageError(f'"{verb}" is not a run', hint=f"Jobs are {', '.join(RUNS)}.")
    _refuse_secrets(words)
    params = parsed(words)
    if params.get("store_url") not in (None, os.environ.get("PGDYNO_STORE")):
        raise UsageError(
            "a job writes into the store of its queue",
            hint="Name it before the words: pgdyno queue add --store URL --.",
        )
    if "target" not in params:
        return
    if params["target"] is None and params.get("host") is None and environment_names_server():
        raise UsageError(
            "the server is named by PG* variables, which the runner does not have at night",
            hint="Name it in the job: --target 'host=... user=...'.",
        )
    names_server = params["target"] is not None or params.get("host") is not None or params.get("patroni")
    if names_server and params.get("yes") is False:
        raise UsageError("there is nobody to ask at night", hint="Add --yes to the job's words once you mean it.")


def _refuse_secrets(words: Sequence[str]) -> None:
    from pgdyno.server.postgres import redact

    for word in words:
        if redact(word) != word:
            raise UsageError(
                f'"{redact(word)}" holds a password, which the queue does not keep',
                hint="Put it into ~/.pgpass or a service file, and leave it out here.",
            )


def parsed(words: Sequence[str], folder: str = ".") -> dict[str, object]:
    """Return the parameters that a verb's own command reads in the words, seen from a folder.

    Raises UsageError as it would, also where the folder is gone.
    """
    from pgdyno.cli.main import command as program
    from pgdyno.cli.main import in_our_grammar

    command = program.get_command(click.Context(program), words[0])
    assert command is not None, "a job's verb is one of the program's"
    try:
        with contextlib.chdir(folder):  # a plan file is read, and its path is meant from there
            context = command.make_context(f"pgdyno {words[0]}", list(words[1:]))
    except OSError as error:
        raise UsageError(
            f'folder "{folder}" of the job cannot be entered',
            detail=error.strerror,
            hint="Add the job from a folder that stays: cd FOLDER, then pgdyno queue add -- ...",
        ) from error
    except click.exceptions.Exit as ended:
        raise UsageError(
            f'"{" ".join(words)}" prints help and runs nothing',
            hint="Leave it out: pgdyno queue add -- VERB FLAGS.",
        ) from ended
    except click.ClickException as error:
        raise in_our_grammar(error, f"pgdyno {words[0]}") from error
    return context.params


def words_of(job: Job, study: Study | None) -> tuple[str, ...] | None:
    """Return the words that begin a job, or those that go on with its study; None where its verb cannot go on."""
    if study is None:
        return job.argv
    from pgdyno.studies.kinds import kind_of

    verb = job.argv[0]
    if kind_of(study.kind).continued_by(study) != verb:
        return None
    params = parsed(job.argv, job.folder)
    kept = [verb, "--resume", study.id]
    for name, flag in (("target", "--target"), ("report", "--report")):
        if params.get(name) is not None:
            kept += [flag, str(params[name])]
    confirmed = params.get("confirm")
    for step in confirmed if isinstance(confirmed, tuple) else ():
        kept += ["--confirm", str(step)]
    kept += [flag for name, flag in (("yes", "--yes"), ("as_json", "--json")) if params.get(name)]
    return tuple(kept)


def target_of(job: Job) -> TargetRequest:
    """Return the server that the job's words name."""
    from pgdyno.studies.session.target_request import TargetRequest

    params = parsed(job.argv, job.folder)
    return target_request(TargetFlags.of(params)) if "target" in params else TargetRequest()


def service_text(argv: Sequence[str], *, user: str, home: str | None, stop_s: float) -> str:
    """Return the service: one window, ended by SIGTERM with enough time, `stop_s`, to put a server back.

    `argv` is the command of the runner, quoted here, `user` the account that it runs as; `stop_s` is in seconds. `home`
    is PGDYNO_HOME for its runs, None where it is not set.
    """
    environment = f'Environment="PGDYNO_HOME={_escaped(home)}"\n' if home else ""
    words = (f'"{_escaped(word)}"' if shlex.quote(word) != word else _escaped(word) for word in argv)
    command = " ".join(words).replace("$", "$$")
    return (
        "[Unit]\n"
        "Description=pgdyno: the runs of one night\n"
        "Documentation=man:systemd.service(5)\n"
        "After=network-online.target postgresql.service\n"
        "Wants=network-online.target\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        f"User={user}\n"
        f"{environment}"
        f"ExecStart={command}\n"
        "# Only the runner is told to end: it ends its job, which restores the server.\n"
        "KillMode=mixed\n"
        f"TimeoutStopSec={stop_s:.0f}\n"
    )


def _escaped(word: str) -> str:
    """Return what stands for a word in a unit: in its quotes a backslash means something, too, and % always."""
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def timer_text(begin: str, zone: str | None) -> str:
    """Return the timer: every day when the window opens; a night that was missed is not made up for by day."""
    calendar = f"*-*-* {begin}:00" + (f" {zone}" if zone else "")
    return (
        "[Unit]\n"
        "Description=pgdyno: when the night begins\n"
        "\n"
        "[Timer]\n"
        f"OnCalendar={calendar}\n"
        "AccuracySec=1s\n"
        "Persistent=false\n"
        f"Unit={SERVICE}\n"
        "\n"
        "[Install]\n"
        "WantedBy=timers.target\n"
    )
