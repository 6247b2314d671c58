"""Run engines: one process a share of the sessions, told what to do, watched, and ended with us."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.outside.way import doubt_about
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.trace.engine.plan import EnginePlan
from pgdyno.trace.engine.tally import COMPLETE, RunTally

PYTHON = (sys.executable, "-m", "pgdyno.trace.engine")
"""The engine that is always there."""
COMPILED = Path(__file__).with_name("bin") / "pgdyno-engine"
"""The engine that `make engine` builds from `engine/`, and that a wheel may bring along."""
COMPILED_VERSION = "1"
"""What the compiled engine is told and tells; raised here and in `engine/src/main.rs` with every change of either."""
_VERSION_TIMEOUT_S = 10.0
END_TIMEOUT_S = 30.0
"""An engine that is told to end cancels what the server is at; then it is killed."""
_LOOK_S = 1.0
"""An engine tells about five times a second; who watches the run is asked at least so often, whatever engines do."""
_MOST_STDERR = 4000


def choose_engine(plan: EnginePlan, compiled: Path = COMPILED, asked: str | None = None) -> tuple[tuple[str, ...], str]:
    """Return the program that sends a plan's tape, and why it is that one: the compiled one unless it cannot.

    `asked` names one, `python` or `compiled`; raises EnvironmentUnsuitable where the compiled one is asked for in vain.
    """
    if asked == "python":
        return PYTHON, "the Python engine, as requested"
    program, why = _suitable(plan, compiled)
    if asked == "compiled" and program == PYTHON:
        raise EnvironmentUnsuitable(
            "the compiled engine cannot send this", detail=why, hint="Leave --engine out: the Python engine can."
        )
    return program, why


def doubt_about_compiled(compiled: Path = COMPILED) -> str | None:
    """Return why the compiled engine cannot be run, whatever it is to do; None where it can."""
    if not os.access(compiled, os.X_OK):
        return "no compiled one is installed, `make engine` builds it"
    if os.geteuid() == 0 and (doubt := doubt_about(compiled.absolute(), 0)) is not None:
        return f"root does not run the compiled one, as {doubt}"
    if (version := _version_of(compiled)) != COMPILED_VERSION:
        known = f"its version is {version}, not {COMPILED_VERSION}" if version else "it does not say its version"
        return f"the compiled one was built for another pgdyno ({known}), `make engine` builds it anew"
    return None


def _version_of(compiled: Path) -> str | None:
    """Return what an engine says that it is; None of one that says nothing, as every one did once."""
    try:
        said = subprocess.run(
            [compiled, "version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            env=inherited(ProgramKind.PROGRAM),
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip()[:20] or None


def _suitable(plan: EnginePlan, compiled: Path) -> tuple[tuple[str, ...], str]:
    end_point = plan.end_point
    if (doubt := doubt_about_compiled(compiled)) is not None:
        return PYTHON, f"the Python engine: {doubt}"
    if not end_point.host.startswith("/") and end_point.tls not in ("disable", "allow"):
        return PYTHON, f"the Python engine: the compiled one speaks no TLS, and sslmode is {end_point.tls}"
    for role, password in plan.login.passwords.items():
        if not password.isascii():
            return PYTHON, f"the Python engine: the password of {role!r} is not all ASCII, and only it has SASLprep"
    return (str(compiled),), "the compiled engine"


@dataclass(slots=True)
class ToldShares:
    """What the engines of a run have told last, each for its share."""

    shares: list[RunTally] = field(default_factory=list)

    def whole(self) -> RunTally:
        """Return the sum; of moments and of lateness the largest."""
        whole = RunTally()
        for share in self.shares:
            for one in dataclasses.fields(RunTally):
                mine, other = getattr(whole, one.name), getattr(share, one.name)
                if one.name == "late_us":
                    whole.late_us = max(mine, other)
                elif one.name == "at_us":  # negative before the run begins, 0 of one that has told nothing
                    whole.at_us = max(mine, other) if mine and other else mine or other
                elif isinstance(mine, (int, float)):
                    setattr(whole, one.name, mine + other)
            for reason, count in share.reasons.items():
                whole.because(reason, count)
            whole.pauses = _together(whole.pauses, share.pauses)
            if share.ended and whole.ended in ("", COMPLETE):
                whole.ended = share.ended
        return whole


def _together(*shares: list[list[int]]) -> list[list[int]]:
    """Return the pauses of several shares as those of all: what overlaps is one, and lasts as long as any of it."""
    found = list[list[int]]()
    for begin, end, count in sorted(pause for share in shares for pause in share):
        if found and (found[-1][1] < 0 or begin <= found[-1][1]):
            before = found[-1]
            before[1] = -1 if min(before[1], end) < 0 else max(before[1], end)
            before[2] += count
        else:
            found.append([begin, end, count])
    return found


def run_engines(
    plan: EnginePlan,
    tape: Path | int,
    records: Sequence[Path],
    *,
    program: Sequence[str] = PYTHON,
    watch: Callable[[RunTally], bool] = lambda _: False,
    pauses: Callable[[], bool] = lambda: False,
) -> RunTally:
    """Send a tape by as many engines as there are files for records, which exist and are empty; return the sum.

    `tape` is a file or a descriptor. `plan` is that of all; descriptors and shares are filled in here. Each engine is a
    process of `program`, an argument list, and appends to one of `records`. `watch` is called about five times a second
    with the sum so far, and ends the run where it returns True: an engine that does not end within END_TIMEOUT_S then
    is killed. `pauses`, asked as often, pauses it for as long as it returns True. Whatever ends this ends the engines,
    and they their sessions. Raises EnvironmentUnsuitable where an engine ends without telling how.
    """
    told = ToldShares([RunTally() for _ in records])
    processes: list[subprocess.Popen[bytes]] = []
    paused = [False for _ in records]
    try:
        for share, file in enumerate(records):
            processes.append(_start(replace(plan, shard=share, shards=len(records)), tape, file, program))
        with selectors.DefaultSelector() as selector:
            for share, process in enumerate(processes):
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, share)
            killed_at = math.inf
            while selector.get_map():
                # what an engine that says nothing does to the server is watched as well
                for key, _ in selector.select(_LOOK_S):
                    line = key.fileobj.readline()  # type: ignore[union-attr]  # whole lines are written at once
                    if line:
                        told.shares[key.data] = RunTally(**json.loads(line))
                    else:
                        selector.unregister(key.fileobj)
                if watch(told.whole()):
                    killed_at = min(killed_at, time.monotonic() + END_TIMEOUT_S)
                    _end(processes)
                if time.monotonic() >= killed_at:
                    _kill(processes)
                wanted = pauses()
                for share, process in enumerate(processes):
                    # one that has told nothing yet would be ended by the signal
                    if paused[share] is not wanted and told.shares[share].at_us and process.poll() is None:
                        process.send_signal(signal.SIGUSR1 if wanted else signal.SIGUSR2)
                        paused[share] = wanted
        for share, process in enumerate(processes):
            process.wait(END_TIMEOUT_S)
            if killed_at < math.inf and process.returncode == -signal.SIGTERM and not told.shares[share].at_us:
                told.shares[share].ended = signal.SIGTERM.name  # it was still starting, and had sent nothing
            if not told.shares[share].ended:
                raise EnvironmentUnsuitable(
                    f"an engine of the replay ended with exit code {process.returncode}",
                    detail=_said(process) or None,
                    hint="What was answered until then is on file. Mend what it says, and run it again.",
                )
    finally:
        _end(processes)
        for process in processes:
            _reap(process)
    return told.whole()


def _start(plan: EnginePlan, tape: Path | int, records: Path, program: Sequence[str]) -> subprocess.Popen[bytes]:
    source = os.dup(tape) if isinstance(tape, int) else os.open(tape, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        sink = os.open(records, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(source, sink),
                env=inherited(ProgramKind.PROGRAM),
                cwd="/",
            )
        finally:
            os.close(sink)
    finally:
        os.close(source)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:  # of one that has ended, which is told with its reason
        stdin.write(json.dumps(dataclasses.asdict(replace(plan, tape=source, records=sink))).encode())
    return process


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)


def _kill(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _said(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read(_MOST_STDERR).decode(errors="replace").strip().rpartition("\n")[2]
