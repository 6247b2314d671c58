"""The entry point: the list of verbs, loaded lazily, and the one place where an error becomes an exit code."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO, cast

import click

from pgdyno import __version__
from pgdyno.cli.arguments.numbers import parameters, settle_number
from pgdyno.cli.terminal.lettering import let_letters_be_missing
from pgdyno.cli.terminal.live_line import begin_line
from pgdyno.errors import ExitCode, PgdynoError, UsageError
from pgdyno.outside.words import PlainStream

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS: dict[str, str] = {
    "advise": "Say what could be better on a server and its host, with evidence and sources.",
    "tune": "Search for a better configuration, prove it and explain it.",
    "experiment": "Compare configurations, one change at a time, in interleaved pairs.",
    "apply": "Apply findings, or a tune's winner, for good, and keep the undo.",
    "bench": "Measure one configuration under one workload.",
    "matrix": "Measure loads x configurations x host states, and print the table.",
    "noise": "Say how small an effect this machine can show, and with which windows and pairs.",
    "live": "Watch a server under its users' own load, or compare settings on it.",
    "capture": "Log a server's real load for a while, for a trace and a replay.",
    "watch": "Watch a server for days, and say which statements became slower and what was changed.",
    "replay": "Send a captured load to another server, on its schedule, and say how it was answered.",
    "batch": "Run a batch chain or read what another scheduler recorded, and compare its window and jobs.",
    "migrate": "Rehearse a migration in phases, against its window, and say whether every row arrived.",
    "job": "Run one job for another scheduler, and record it for a batch chain.",
    "scale": "Measure load levels on hardware in proportion, and say whether they perform alike.",
    "selftest": "Prove on this machine that equal is called equal and sabotage is found.",
    "queue": "Queue runs for the night, and run them in a window with host and server to themselves.",
    "compare": "Compare two recorded runs, platforms or iostat reports.",
    "bundle": "Copy studies to the store of another machine, in one file.",
    "demo": "Tune the embedded PostgreSQL on a YBIO load, in about five minutes on two cores.",
    "inspect": "Show what is known about a server and its host, or capture it into a folder.",
    "report": "Write the report of a study as text, Markdown, HTML, PDF, JSON or CSV.",
    "serve": "Show in a browser what is running, what is waiting and what was found.",
    "project": "Keep the plan of a benchmark project, and report planned against actual.",
    "preflight": "Say what would keep a configuration from taking effect.",
    "privileges": "List the rights that a role lacks for a verb, as GRANT statements.",
    "rollback": "Restore a server after a killed session, or take back what apply kept.",
    "cleanup": "List and drop what pgdyno left: databases, drop-ins, logs, sandboxes.",
    "guards": "List the guards of a trial: what they watch, where they trip, their readings now.",
    "knobs": "List and explain the knobs, their ranges and durability classes.",
    "disks": "Choose volumes of a storage server, and judge a list of them.",
    "rules": "List the rules of the advisor.",
    "trace": "Build a trace from server logs, say what it holds, and cut parts out of it.",
    "persist": "Make Linux knobs survive a reboot: print the files, or write them.",
    "store": "List, show and export what was measured, and what was changed.",
    "import": "Read what other tools measured into the store.",
    "hammerdb": "Run HammerDB, if it is installed, and keep its result in the store.",
    "host": "Prepare a database host that is reached over ssh.",
    "ybio": "Print the procedures setup and runit, and the sizes of their classes.",
    "sandbox": "Start, stop and remove embedded PostgreSQL servers.",
    "completion": "Print the script that completes verbs, flags, knobs and studies in a shell.",
}
MODULES = {"import": "importing"}
"""The module of a verb whose name Python keeps for itself."""
for _file in sorted(Path(__file__).parent.glob("[!_]*.py")):
    if _file.stem not in {"main", *VERBS, *MODULES.values()}:  # then its first line is what help says of it
        VERBS[_file.stem] = _file.read_text("utf-8").splitlines()[0].partition("`: ")[2].rstrip('"')
GROUPS: dict[str, str] = {
    "Look": "advise inspect watch guards preflight privileges knobs rules disks",
    "Measure": "bench matrix experiment noise selftest compare ybio hammerdb",
    "Tune, and keep or take back": "demo tune live apply persist rollback cleanup",
    "Take a load, and data, to another server": "capture trace replay batch job migrate scale project",
    "What was measured, over time": "serve report store queue import bundle",
    "Set up": "sandbox host completion",
}
"""The verbs as help lists them; one that is in none of these comes last."""
PROGRAM = "pgdyno"
# Before NumPy is loaded: the matrices of a search are small, and threads that spin for them take the CPUs of the load.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
NEW_OBJECTS = 150_000
"""Modules and what is read of a server are many objects and no garbage: looking through them every 700 took a tenth.

More than any verb makes until its first answer: the two looks of `serve` at what it had loaded took a twentieth."""
gc.set_threshold(NEW_OBJECTS)
# Called last of all. Python else looks through all that there is before it ends: a sixth of what `advise` takes.
atexit.register(gc.freeze)
INTERRUPTED = 130
"""Exit code after SIGINT or SIGTERM, as shells have it; the server was restored before."""


class Verbs(click.Group):
    """A group whose commands are modules of this package, imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order in which a user meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its command."""
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"pgdyno.cli.{MODULES.get(cmd_name, cmd_name)}").command
        assert isinstance(command, click.Command), f"cli/{cmd_name}.py has no command"
        for param in parameters(command):
            settle_number(param)
        _say_whole_sentences(command)
        if "_PGDYNO_COMPLETE" in os.environ:
            from pgdyno.cli.arguments.completing import let_complete

            for param in parameters(command):
                let_complete(param)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the verbs and flags that begin so, without importing a verb."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=text) for verb, text in VERBS.items() if verb.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that was typed; of one that there is not, an error that names the nearest."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, cutoff=0.6)
            guess = f"Did you mean {' or '.join(f'{PROGRAM} {verb}' for verb in near)}? " if near else ""
            raise UsageError(
                f'"{args[0]}" is not a verb of {PROGRAM}', hint=f"{guess}Run {PROGRAM} --help for all verbs."
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs from the tables above, without importing them."""
        widest, left = max(map(len, VERBS)), dict(VERBS)
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(widest), left.pop(verb)) for verb in verbs.split()])
        if left:
            with formatter.section("Other verbs"):
                formatter.write_dl([(verb.ljust(widest), text) for verb, text in left.items()])


def _say_whole_sentences(command: click.Command) -> None:
    """Let the list of a verb's own commands have their first sentences whole: click cuts them to a line."""
    for one in command.commands.values() if isinstance(command, click.Group) else ():
        one.short_help = one.short_help or " ".join((one.help or "").split("\n\n")[0].split())


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="pgdyno")
def command() -> None:
    """Performance laboratory and autotuner for PostgreSQL on Linux.

    Without --target every verb works on a sandbox: an embedded PostgreSQL of its own, Unix socket only.

    Exit codes: 0 ok, 1 findings or regression, 2 usage, 3 not resolved, 4 stopped and restored, 5 restored with
    damage, 6 environment unsuitable, 130 interrupted and restored.
    """


def main() -> None:
    """Run pgdyno and exit with one of the exit codes; a user error is printed, never a traceback."""
    if "PGDYNO_RUNNER" in os.environ:
        from pgdyno.owner.parent import end_with_parent

        end_with_parent()
    _let_output_end_anywhere()
    if "_PGDYNO_COMPLETE" in os.environ:
        from pgdyno.cli.arguments.completing import answer

        answer(command, PROGRAM)
    with _plain_output():
        _run()


def _run() -> None:
    try:
        code = command.main(prog_name=PROGRAM, standalone_mode=False)
    except PgdynoError as error:
        _end(error)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:  # click turns the second into the first
        _end_interrupted(error.__cause__ or error)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)  # nothing was typed wrongly: it is the help, and no error
        sys.exit(int(ExitCode.USAGE))
    except click.ClickException as error:
        _end(in_our_grammar(error, _typed()))
    except BrokenPipeError:
        # the reader of our output has gone, as `pgdyno store list | head` does: nothing to say and no one to hear it
        _leave_stdout()
        sys.exit(int(ExitCode.OK))
    except UnicodeEncodeError as error:
        if not any(map(_is_no_text, sys.argv)):
            _end_unforeseen(error)
        _end(UsageError("a word of the command line is not text in UTF-8", hint="Rename what it names."))
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python below 3.12 wraps one that came in __set_name__
            _end_interrupted(error.__cause__)
        _end_unforeseen(error)
    sys.exit(code if isinstance(code, int) else int(ExitCode.OK))


def _end_interrupted(error: BaseException) -> NoReturn:
    """End with the words of who was interrupted, where it left something to somebody else."""
    left = str(error) if isinstance(error, KeyboardInterrupt) else ""
    said = f"interrupted; {left or 'nothing on the server was left changed'}"
    if _wants_json():
        _print_json({"message": said, "exit_code": INTERRUPTED})
    begin_line()
    click.echo(said, err=True)
    sys.exit(INTERRUPTED)


def _end_unforeseen(error: Exception) -> NoReturn:
    from pgdyno.cli.terminal.unforeseen import foreseen

    _end(foreseen(error))


def _end(error: PgdynoError) -> NoReturn:
    """Print an error, as JSON too where that was asked for, and exit with its code."""
    if _wants_json():
        told = {"message": error.message, "detail": error.detail, "hint": _hint(error)}
        _print_json({**told, "exit_code": int(error.exit_code)})
    print_error(error)
    sys.exit(int(error.exit_code))


def _print_json(told: dict[str, object]) -> None:
    begin_line()  # stdout may be the same terminal
    try:
        click.echo(json.dumps({"error": told}))
    except OSError:  # its disk is full, which may be the error itself: that is told on stderr
        _leave_stdout()


def _leave_stdout() -> None:
    """Let what is left of our output go nowhere: Python writes it at its end, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wants_json() -> bool:
    """Tell whether one JSON object was asked for; words after `--` are those of another command."""
    words = sys.argv[1:]
    return "--json" in words[: words.index("--") if "--" in words else None]


def _is_no_text(word: str) -> bool:
    """Tell whether a word holds bytes that are no UTF-8, which Python keeps as halves of surrogate pairs."""
    return any("\ud800" <= letter <= "\udfff" for letter in word)


def _let_output_end_anywhere() -> None:
    """Write in ASCII what a terminal's character set lacks, and nowhere what stdout or stderr would have had if closed.

    A descriptor that is closed is taken, so that no file of ours gets its number and no child writes into that file.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = getattr(sys, name)
        if stream is None and os.open(os.devnull, os.O_RDWR) == number:
            setattr(sys, name, os.fdopen(number, mode))
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            let_letters_be_missing(stream)


@contextmanager
def _plain_output() -> Iterator[None]:
    """Let no word that is printed move a cursor or hide another: what others wrote comes through every verb."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast(TextIO, PlainStream(out)), cast(TextIO, PlainStream(err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def in_our_grammar(error: click.ClickException, typed: str) -> UsageError:
    """Return what click found wrong with the flags of the verb that was typed as an error like any other."""
    text = error.format_message().strip().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    verb = context.command_path if context else typed  # click's parser does not say whose flag it was
    return UsageError(text[:1].lower() + text[1:], hint=f"Run {verb} --help for the flags and their values.")


def print_error(error: PgdynoError) -> None:
    """Print an error in PostgreSQL's grammar to stderr."""
    begin_line()
    click.echo(f"error: {error.message}", err=True)
    if error.detail:
        click.echo(f"detail: {error.detail}", err=True)
    click.echo(f"hint: {_hint(error)}", err=True)


def _hint(error: PgdynoError) -> str:
    return error.hint or _next_command(error)


def _next_command(error: PgdynoError) -> str:
    """Return what to type next where the error itself does not say: a server that was left changed comes first."""
    if isinstance(error, UsageError):
        return f"Run {_typed()} --help for the flags and their values."
    return "Fix the problem and retry; pgdyno rollback --list shows whether anything was left open."


def _typed() -> str:
    """Return the program with the verb that was typed."""
    return " ".join([PROGRAM, *(word for word in sys.argv[1:2] if word in VERBS)])


if __name__ == "__main__":
    main()
