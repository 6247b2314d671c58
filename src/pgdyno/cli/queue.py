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

from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.cli.requests.queue_words import check_words, target_of, words_of
from pgdyno.cli.terminal.files import make_folder, write_text
from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.job import JobState
from pgdyno.outputs import PUBLIC

if TYPE_CHECKING:
    from pgdyno.model.job import Job
    from pgdyno.studies.night.runner import Night

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_WINDOW = click.option(
    "--window", required=True, metavar="HH:MM-HH:MM", help="When jobs may run, such as 22:00-06:00; over midnight too."
)
_TO_SAY_SO_S = 60.0
"""What a runner has, beyond the time that it gives to its job, for keeping how that ended."""
_ZONE = click.option("--zone", metavar="NAME", help="Time zone, such as Europe/Berlin.  [default: this machine's]")


@click.group("queue")
def command() -> None:
    """Keep runs for the night, and run them in a window with host and server to themselves.

    A job is a pgdyno command that measures. It runs as a process of its own, is told to end before the window does,
    puts its server back, and goes on in the next window where its study can be resumed.
    """


@command.command("add", context_settings={"ignore_unknown_options": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- VERB ARGS...")
@_JSON
@store_option
def add(words: tuple[str, ...], as_json: bool, store_url: str | None) -> None:
    """Add a run at the end of this host's queue; write its words after --.

    They are checked now, as their verb would. Relative paths hold from this folder. Words with a password are refused.
    Only a runner of this account, on this host, runs the job: others could have written the store.
    """
    from pgdyno.store.queue import Queue
    from pgdyno.studies.session.own_jobs import OwnJobs

    check_words(words)
    store = open_store(store_url)
    here = {"host": socket.gethostname(), "folder": str(Path.cwd())}
    job = Queue(store).add(words, **here, at=time.time(), keep=OwnJobs(store.name).keep)
    if as_json:
        click.echo(json.dumps(job_json(job)))
        return
    click.echo(f"job {job.id} waits: pgdyno {shlex.join(job.argv)}")


@command.command("list")
@_JSON
@click.option("--all", "with_ended", is_flag=True, help="Those that are done, failed or removed, too.")
@store_option
def list_(as_json: bool, with_ended: bool, store_url: str | None) -> None:
    """List the jobs of every host in order, with their state and the reason."""
    from pgdyno.store.queue import Queue

    jobs = Queue(open_store(store_url)).jobs()
    ended = (JobState.DONE, JobState.FAILED, JobState.REMOVED)
    shown = [job for job in jobs if with_ended or job.state not in ended]
    if as_json:
        click.echo(json.dumps({"jobs": [{**job_json(job), "abandoned": _is_abandoned(job)} for job in shown]}))
        return
    for job in shown:
        click.echo(_line(f"{job.id:>4}  {job.state.value:<11}  {job.host}  pgdyno {shlex.join(job.argv)}"))
        for about in _about(job):
            click.echo(_line(f"      {about}"))
    left = len(jobs) - len(shown)
    if left and not as_json:
        click.echo(f"{left} ended or removed: --all shows them", err=True)
    if not jobs:
        click.echo("the queue is empty; pgdyno queue add -- tune ... adds a job", err=True)


@command.command("remove")
@click.argument("job_id", type=int, metavar="JOB")
@store_option
def remove(job_id: int, store_url: str | None) -> None:
    """Take a job out of the queue; one that runs stays."""
    from pgdyno.store.queue import Queue
    from pgdyno.studies.session.own_jobs import OwnJobs

    store = open_store(store_url)
    job = Queue(store).remove(job_id)
    OwnJobs(store.name).end(job)
    click.echo(f"job {job.id} is removed", err=True)


@command.command("run")
@_WINDOW
@_ZONE
@click.option("--once", is_flag=True, help="This window only; when it is closed now, nothing is started.")
@click.option("--until", metavar="TIME", help="End at this moment, such as 2026-12-24T06:00, at the latest.")
@click.option("--restore", "restore_s", type=Time("s", 0), default=120.0, show_default=True,
              help="Seconds before the end at which a job is told to put its server back.")  # fmt: skip
@click.option("--shortest", "shortest_s", type=Time("s", 0), default=600.0, show_default=True,
              help="Begin no job with fewer seconds left.")  # fmt: skip
@click.option("--retry", "retry_s", type=Time("s", 1), default=60.0, show_default=True,
              help="Seconds between looks at a machine that is not quiet.")  # fmt: skip
@click.option("--look", "look_s", type=Time("s", 1), default=10.0, show_default=True,
              help="Seconds to look at host and server before a job begins.")  # fmt: skip
@click.option("--foreign-cpu", type=click.FloatRange(0), default=15.0, show_default=True,
              help="Most CPU of others before a job begins, in percent of one core.")  # fmt: skip
@click.option("--foreign-disk", type=click.FloatRange(0), default=5.0, show_default=True,
              help="Most that others move on the data's disks, in MB/s, before and during a job.")  # fmt: skip
@click.option("--foreign-sessions", type=click.IntRange(0), default=0, show_default=True,
              help="Most sessions of others that are not idle, before and during a job.")  # fmt: skip
@_JSON
@store_option
def run(
    window: str,
    zone: str | None,
    once: bool,
    until: str | None,
    restore_s: float,
    shortest_s: float,
    retry_s: float,
    look_s: float,
    foreign_cpu: float,
    foreign_disk: float,
    foreign_sessions: int,
    as_json: bool,
    store_url: str | None,
) -> int:
    """Work through the queue: in this window with --once, else night after night until ended.

    Before each job, host and server are looked at; while others use them the job waits, and gives up for this night
    when too little of it is left. A job that this account did not add on this host as it is, or that has ended before,
    is refused and stays. One runner works on a host. Exit code 6 when the machine was never quiet or a job was refused,
    5 when a job could not put its server back: then nothing else is started.
    """
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.store.engine import absolute
    from pgdyno.studies.night.runner import NightPlan, NightRunner
    from pgdyno.studies.night.window import NightWindow
    from pgdyno.studies.night.work import NightWork, only_runner
    from pgdyno.studies.session.exclusive import ExclusiveLimits
    from pgdyno.studies.session.study_session import signals_interrupt

    plan = NightPlan(NightWindow.parse(window, zone), restore_s, shortest_s, retry_s)
    ends, progress = _moment(until, plan.window), Progress()
    store = open_store(store_url)
    limits = ExclusiveLimits(foreign_cpu, foreign_disk, foreign_sessions)
    work = NightWork(
        store,
        absolute(store_url) if store_url else store.name,
        limits,
        resume=words_of,
        target_of=target_of,
        announce=progress.announce,
        look_s=look_s,
    )
    host = socket.gethostname()
    from pgdyno.store.queue import Queue

    runner = NightRunner(Queue(store), plan, work, host=host, name=f"{host}:{os.getpid()}", announce=progress.announce)
    with only_runner(), signals_interrupt():
        nights = runner.run(once=once, until=ends)
    if as_json:
        click.echo(json.dumps({"nights": [_night_json(night) for night in nights]}))
    return int(max((night.code for night in nights), default=ExitCode.OK, key=_gravity))


@command.command("timer")
@_WINDOW
@_ZONE
@click.option("--user", metavar="USER", help="Who runs the jobs, and adds them.  [default: you]")
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), help="Write the two files here.")
@_JSON
@store_option
def timer(
    window: str, zone: str | None, user: str | None, output: Path | None, as_json: bool, store_url: str | None
) -> None:
    """Print units of systemd that run the queue every night; with -o write them into a folder. Installs nothing."""
    from pgdyno.cli.requests.queue_timer import SERVICE, TIMER, service_text, timer_text
    from pgdyno.server.postgres import redact
    from pgdyno.store.engine import absolute
    from pgdyno.studies.night.runner import HUNG_S
    from pgdyno.studies.night.window import NightWindow

    parsed = NightWindow.parse(window, zone)
    if store_url is not None and redact(store_url) != store_url:
        raise UsageError("the store's URL holds a password", hint="Put it into ~/.pgpass and leave it out here.")
    argv = [sys.executable, "-m", "pgdyno", "queue", "run", "--window", str(parsed), "--once"]
    argv += ["--zone", zone] if zone else []
    argv += ["--store", absolute(store_url)] if store_url else []
    home = str(Path(os.environ["PGDYNO_HOME"]).expanduser().absolute()) if "PGDYNO_HOME" in os.environ else None
    files = {
        SERVICE: service_text(argv, user=user or getpass.getuser(), home=home, stop_s=HUNG_S + _TO_SAY_SO_S),
        TIMER: timer_text(f"{parsed.window.begin:%H:%M}", zone),
    }
    if as_json:
        click.echo(json.dumps(files))
    for name, text in files.items():
        if output is not None:
            make_folder(output, option="--output")
            write_text(output / name, text, option="--output", mode=PUBLIC)  # as systemd wants units
        elif not as_json:
            click.echo(f"# /etc/systemd/system/{name}\n{text}")
    where = str(output) if output else "the two files"
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
        lines.append(f"its runner {job.runner} is gone: the next pgdyno queue run takes it up")
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
