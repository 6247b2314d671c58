"""Root's side: sessions on the hostile owner's server, one after another, until told to stop or one is not put back.

    hostile_tuner.py CONNINFO UNDO_ROOT STOP_FILE

Prints one line of JSON: what was done, which errors were told, which were defects, which files of the owner's this
process of root's touched itself (root_audit.py), and the longest single step.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import hostile_moves
from root_audit import touched

from pgdyno.control.pg_ctl import PgCtl
from pgdyno.errors import PgdynoError
from pgdyno.inventory.inspection import inspect
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Unknown
from pgdyno.preflight.examine import examine
from pgdyno.targets import server_log
from pgdyno.targets.connect import open_target
from pgdyno.targets.target import Target
from pgdyno.undo.apply import Session
from pgdyno.undo.rollback import LocalSessions, SessionState
from pgdyno.undo.watch import Deadlines

faulthandler.register(signal.SIGUSR1, all_threads=True)  # hostile.py asks so where a process of root's waits
conninfo, undo_root, stop_file = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
QUICK = Deadlines(heartbeat_s=5, health_s=5, grace_s=2)
RESTART_S = 20.0
RELOADED = Configuration.of({"work_mem": "8MB"})
RESTARTED = Configuration.of({"shared_buffers": "32MB", "work_mem": "9MB"})
done: Counter[str] = Counter()
told: Counter[str] = Counter()
defects: Counter[str] = Counter()
longest = (0.0, "nothing")


def step(name: str, act: Callable[[], object]) -> bool:
    """Do one thing; tell whether it worked. What is no error of pgdyno's own is a defect."""
    global longest
    began = time.monotonic()
    try:
        act()
    except PgdynoError as error:
        told[f"{name}: {type(error).__name__}"] += 1
        return False
    except Exception as error:
        frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        places = [f"{file.name}:{line}" for file, line in frames if "pgdyno" in file.parts and file.name != "hands.py"]
        defects[f"{name}: {type(error).__name__}: {str(error)[:160]} at {' > '.join(places[-4:])}"] += 1
        return False
    finally:
        longest = max(longest, (time.monotonic() - began, name))
    done[name] += 1
    return True


def opened() -> Target:
    """Open the server; a start or stop of it is waited for so long that a whole session stays within the bound."""
    target = open_target(conninfo)
    control = target.control
    return replace(target, control=replace(control, timeout_s=RESTART_S)) if isinstance(control, PgCtl) else target


def look() -> None:
    """Read all that is read of a server."""
    target = opened()
    step("inspect", lambda: inspect(target))
    step("preflight", lambda: examine(target, RESTARTED))
    files = server_log.log_files(target)
    if not isinstance(files, Unknown) and files:
        step("log", lambda: server_log.read_log(target, files[-1].path, 0, 4096))


def tune() -> bool:
    """Do one session; False when the server was not put back and this process has to leave that to its watchdog."""
    sessions = LocalSessions(undo_root)
    for info in sessions.sessions():
        if info.state is SessionState.ABANDONED:
            step("roll back", partial(sessions.roll_back, info.directory.name))
    made: list[Session] = []

    def begin() -> None:
        made.append(Session.begin(opened(), study="hostile", undo_root=undo_root, watch=QUICK))

    if not step("begin", begin):
        return True
    session = made[0]
    step("reload", lambda: session.apply(RELOADED))
    if step("restart", lambda: session.apply(RESTARTED)):
        stop_file.with_name(hostile_moves.RESTARTED).touch()
    whole = []
    step("restore", lambda: whole.append(session.rollback()))
    return bool(whole) and (whole[0].is_whole or whole[0].already_closed)


while not stop_file.exists():
    if not step("look", look):
        time.sleep(0.1)
    if not tune():
        break
result = {"done": done, "told": told, "defects": defects, "touched": touched, "longest": longest}
print(json.dumps(result))
