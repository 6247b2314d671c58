"""`pgdyno queue`: runs that wait for the night, and the runner that works them off in a window."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import socket
import sys
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import FOLDER, JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.requests.queue_words import check_words, target_of, words_of
from pgdyno.cli.terminal.files import make_folder, write_text
from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.job import Job, JobState
from pgdyno.outputs import PUBLIC

if TYPE_CHECKING:
    from pgdyno.studies.night.runner import Night

_TO_SAY_SO_S = 60.0
"""What a runner has, beyond the time that it gives to its job, for keeping how that ended."""


@click.group("queue")
def command() -> None:
    """Queue runs for the night, and run them in a window with host and server to themselves.

    A job is a pgdyno command that measures. It runs as a process of its own, is told to end before the window does,
    restores its server, and continues in the next window if its study can be resumed.
    """


class _AddFlags(JsonFlag, StoreFlag):
    words: tuple[str, ...] = argument("-- VERB ARGS...", type=click.UNPROCESSED, required=False)


@verb("add", command, context_settings={"ignore_unknown_options": False})
def add(flags: _AddFlags) -> None:
    """Add a run at the end of this host's queue; write its words after --.

    They are checked now, as their verb would check them. Paths are relative to this folder. Passwords are refused.
    Only a runner of this account, on this host, runs the job: others could have written the store.
    """
    from pgdyno.store.queue import Queue
    from pgdyno.studies.session.own_jobs import OwnJobs

    check_words(flags.words)
    store = open_store(flags.store_url)
    here = {"host": socket.gethostname(), "folder": str(Path.cwd())}
    job = Queue(store).add(flags.words, **here, at=time.time(), keep=OwnJobs(store.name).keep)
    if flags.as_json:
        click.echo(json.dumps(job_json(job)))
        return
    click.echo(f"job {job.id} waits: pgdyno {shlex.join(job.argv)}")


class _ListFlags(JsonFlag, StoreFlag):
    with_ended: bool = flag("Include jobs that are done, failed or removed.", "--all")


@verb("list", command)
def list_(flags: _ListFlags) -> None:
    """List the jobs of every host in order, with their state and the reason."""
    from pgdyno.store.queue import Queue

    jobs = Queue(open_store(flags.store_url)).jobs()
    ended = (JobState.DONE, JobState.FAILED, JobState.REMOVED)
    shown = [job for job in jobs if flags.with_ended or job.state not in ended]
    if flags.as_json:
        click.echo(json.dumps({"jobs": [{**job_json(job), "abandoned": _is_abandoned(job)} for job in shown]}))
        return
    for job in shown:
        click.echo(_line(f"{job.id:>4}  {job.state.value:<11}  {job.host}  pgdyno {shlex.join(job.argv)}"))
        for about in _about(job):
            click.echo(_line(f"      {about}"))
    left = len(jobs) - len(shown)
    if left and not flags.as_json:
        click.echo(f"{left} ended or removed: --all shows them", err=True)
    if not jobs:
        click.echo("the queue is empty; pgdyno queue add -- tune ... adds a job", err=True)


class _RemoveFlags(StoreFlag):
    job_id: int = argument("JOB")


@verb("remove", command)
def remove(flags: _RemoveFlags) -> None:
    """Take a job out of the queue; one that runs stays."""
    from pgdyno.store.queue import Queue
    from pgdyno.studies.session.own_jobs import OwnJobs

    store = open_store(flags.store_url)
    job = Queue(store).remove(flags.job_id)
    OwnJobs(store.name).end(job)
    click.echo(f"job {job.id} is removed", err=True)


class _WindowFlags(JsonFlag, StoreFlag):
    window: str = flag("When jobs may run, such as 22:00-06:00; over midnight too.", metavar="HH:MM-HH:MM")
    zone: str | None = flag("Time zone, such as Europe/Berlin.  [default: this machine's]", metavar="NAME")


class _RunFlags(_WindowFlags):
    once: bool = flag("This window only; when it is closed now, nothing is started.")
    until: str | None = flag("End at this time at the latest, such as 2026-12-24T06:00.", metavar="TIME")
    restore_s: float = flag(
        "Seconds before the end at which a job is told to restore its server.",
        "--restore",
        default=120.0,
        type=Time("s", 0),
    )
    shortest_s: float = flag("Begin no job with fewer seconds left.", "--shortest", default=600.0, type=Time("s", 0))
    retry_s: float = flag(
        "Seconds between checks of a machine that is not quiet.", "--retry", default=60.0, type=Time("s", 1)
    )
    look_s: float = flag(
        "Seconds to watch host and server before a job begins.", "--look", default=10.0, type=Time("s", 1)
    )
    foreign_cpu: float = flag(
        "Maximum CPU use by others before a job begins, in percent of one core.", default=15.0, type=click.FloatRange(0)
    )
    foreign_disk: float = flag(
        "Maximum that others may move on the data's disks, in MB/s, before and during a job.",
        default=5.0,
        type=click.FloatRange(0),
    )
    foreign_sessions: int = flag(
        "Maximum number of others' sessions that are not idle, before and during a job.",
        default=0,
        type=click.IntRange(0),
    )


@verb("run", command)
def run(flags: _RunFlags) -> int:
    """Work through the queue: in this window with --once, else night after night until ended.

    Before each job, host and server are watched; while others use them the job waits, and gives up for this night when
    too little of it is left. A job that this account did not add on this host in this form, or that has ended before,
    is refused and stays. There is one runner per host. Exit code 6 when the machine was never quiet or a job was
    refused, 5 when a job could not restore its server: then nothing else is started.
    """
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.owner.signals import signals_interrupt
    from pgdyno.store.engine import absolute
    from pgdyno.studies.night.runner import NightPlan, NightRunner
    from pgdyno.studies.night.window import NightWindow
    from pgdyno.studies.night.work import NightWork, only_runner
    from pgdyno.studies.session.exclusive import ExclusiveLimits

    plan = NightPlan(NightWindow.parse(flags.window, flags.zone), flags.restore_s, flags.shortest_s, flags.retry_s)
    ends, progress = _moment(flags.until, plan.window), Progress()
    store = open_store(flags.store_url)
    limits = ExclusiveLimits(flags.foreign_cpu, flags.foreign_disk, flags.foreign_sessions)
    work = NightWork(
        store,
        absolute(flags.store_url) if flags.store_url else store.name,
        limits,
        resume=words_of,
        target_of=target_of,
        announce=progress.announce,
        look_s=flags.look_s,
    )
    host = socket.gethostname()
    from pgdyno.store.queue import Queue

    runner = NightRunner(Queue(store), plan, work, host=host, name=f"{host}:{os.getpid()}", announce=progress.announce)
    with only_runner(), signals_interrupt():
        nights = runner.run(once=flags.once, until=ends)
    if flags.as_json:
        click.echo(json.dumps({"nights": [_night_json(night) for night in nights]}))
    return int(max((night.code for night in nights), default=ExitCode.OK, key=_gravity))


class _TimerFlags(_WindowFlags):
    user: str | None = flag("Who runs the jobs, and adds them.  [default: you]", metavar="USER")
    output: Path | None = flag("Write the two files here.", "-o", type=FOLDER)


@verb("timer", command)
def timer(flags: _TimerFlags) -> None:
    """Print systemd units that run the queue every night; with -o write them into a folder. Installs nothing."""
    from pgdyno.cli.requests.queue_words import SERVICE, TIMER, service_text, timer_text
    from pgdyno.server.postgres import redact
    from pgdyno.store.engine import absolute
    from pgdyno.studies.night.runner import HUNG_S
    from pgdyno.studies.night.window import NightWindow

    parsed = NightWindow.parse(flags.window, flags.zone)
    if flags.store_url is not None and redact(flags.store_url) != flags.store_url:
        raise UsageError("the store's URL holds a password", hint="Put it into ~/.pgpass and leave it out here.")
    argv = [sys.executable, "-m", "pgdyno", "queue", "run", "--window", str(parsed), "--once"]
    argv += ["--zone", flags.zone] if flags.zone else []
    argv += ["--store", absolute(flags.store_url)] if flags.store_url else []
    home = str(Path(os.environ["PGDYNO_HOME"]).expanduser().absolute()) if "PGDYNO_HOME" in os.environ else None
    files = {
        SERVICE: service_text(argv, user=flags.user or getpass.getuser(), home=home, stop_s=HUNG_S + _TO_SAY_SO_S),
        TIMER: timer_text(f"{parsed.window.begin:%H:%M}", flags.zone),
    }
    if flags.as_json:
        click.echo(json.dumps(files))
    for name, text in files.items():
        if flags.output is not None:
            make_folder(flags.output, option="--output")
            write_text(flags.output / name, text, option="--output", mode=PUBLIC)  # as systemd wants units
        elif not flags.as_json:
            click.echo(f"# /etc/systemd/system/{name}\n{text}")
    where = str(flags.output) if flags.output else "the two files"
    click.echo(f"nothing is installed: put {where} into /etc/systemd/system, then", err=True)
    click.echo(f"  systemctl daemon-reload && systemctl enable --now {TIMER}", err=True)


def job_json(job: Job) -> dict[str, object]:
    """Return a job as JSON values."""
    return {**asdict(job), "argv": list(job.argv), "state": job.state.value}


def _line(text: str) -> str:
    """Return what anybody may have written into the store without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _about(job: Job) -> list[str]:
    """Return how a job stands, a line each: its attempts and times, why, and where its log is."""
    from pgdyno.studies.night.work import errors_of, log_of
    from pgdyno.units import seconds_text

    parts = [f"attempt {job.attempts}"] if job.attempts else []
    if job.began_at is not None and job.attempts:
        began = f"{datetime.fromtimestamp(job.began_at):%Y-%m-%d %H:%M}"
        took = "" if job.ended_at is None else f", for {seconds_text(job.ended_at - job.began_at)}"
        parts.append(f"since {began}" if job.state is JobState.RUNNING else f"begun {began}{took}")
    parts += [f"study {job.study}"] if job.study else []
    parts += [f"exit code {job.exit_code}"] if job.exit_code is not None else []
    lines = [", ".join(parts)] if parts else []
    if _is_abandoned(job):
        lines.append(f"its runner {job.runner} is gone: the next pgdyno queue run picks it up")
    lines += [job.reason] if job.reason else []
    if job.attempts and job.host == socket.gethostname() and (log := errors_of(log_of(job))).exists():
        lines.append(f"log {log}")
    return lines


def _is_abandoned(job: Job) -> bool:
    """Tell whether a job of this host is called running by a runner that was killed."""
    if job.state is not JobState.RUNNING or job.host != socket.gethostname() or job.runner is None:
        return False
    try:
        words = Path(f"/proc/{job.runner.rpartition(':')[2]}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return True
    return b"queue" not in words  # another process has the number now


def _night_json(night: Night) -> dict[str, object]:
    jobs, refused = ([job_json(job) for job in some] for some in (night.jobs, night.refused))
    return {"jobs": jobs, "refused": refused, "ended": night.stopped, "code": int(night.code)}


def _gravity(code: ExitCode) -> int:
    return (ExitCode.OK, ExitCode.UNSUITABLE, ExitCode.DAMAGED).index(code)


def _moment(text: str | None, window: object) -> float | None:
    from pgdyno.studies.night.window import NightWindow

    if text is None:
        return None
    assert isinstance(window, NightWindow)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f'--until "{text}" is not a date and time', hint="Write 2026-12-24T06:00.") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=window.zone)).timestamp()
