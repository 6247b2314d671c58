"""A double of systemctl and journalctl that acts on a real server by pg_ctl, and counts starts as systemd does.

A real systemd cannot be started for a test: it must be the first process, and on a shared file system its own units
(systemd-tmpfiles among them) would change the machine. The double follows systemctl(1) and systemd.unit(5).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pgdyno.owner.runner import LocalRunner
from pgdyno.server import postmaster_lock

_SCRIPT = """#!{python}
import sys
sys.path[:0] = {path}
import systemctl_double
sys.exit(systemctl_double.main({folder!r}, {program!r}, sys.argv[1:]))
"""


@dataclass(frozen=True)
class Unit:
    """What the double is told. `burst` starts are allowed before systemd's limit is hit."""

    name: str
    pg_ctl: Sequence[str]
    user: str | None
    data: str
    log: str
    burst: int = 1000
    can_reload: bool = True


def install(folder: Path, unit: Unit) -> Path:
    """Write both programs and the unit into a folder that the caller puts in front of PATH."""
    folder.mkdir(exist_ok=True)
    (folder / "unit.json").write_text(json.dumps(unit.__dict__))
    for program in ("systemctl", "journalctl"):
        text = _SCRIPT.format(python=sys.executable, path=sys.path, folder=str(folder), program=program)
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
    return folder


def main(folder: str, program: str, words: list[str]) -> int:
    """Do what the program would do with this one unit."""
    unit = Unit(**json.loads((Path(folder) / "unit.json").read_text()))
    if program == "journalctl":
        log = Path(unit.log)
        _say("\n".join(log.read_text().splitlines()[-12:]) if log.exists() else "")
        return 0
    asked = [word for word in words if not word.startswith("--")]
    if asked[-1] != unit.name:
        if asked[0] == "show":
            _say("ActiveState=inactive\nSubState=dead\nResult=success\nMainPID=0\nCanReload=no")
            return 0
        _say(f"Failed to {asked[0]} {asked[-1]}: Unit {asked[-1]} not found.", sys.stderr)
        return 5
    return _ACTIONS[asked[0]](unit, _State(Path(folder) / "state.json"))


def _say(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(f"{text}\n")


class _State:
    """What systemd remembers of the unit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.starts, self.result = json.loads(path.read_text()) if path.exists() else (0, "success")

    def keep(self, starts: int, result: str) -> None:
        """Write it down."""
        self._path.write_text(json.dumps([starts, result]))


def _show(unit: Unit, state: _State) -> int:
    pid = postmaster_lock.postmaster_pid(Path(unit.data)) or 0
    active = "active" if pid else "inactive" if state.result == "success" else "failed"
    result = "success" if pid else state.result
    _say(f"ActiveState={active}\nSubState={'running' if pid else 'dead'}\nResult={result}\nMainPID={pid}")
    _say(f"CanReload={'yes' if unit.can_reload else 'no'}")
    return 0


def _start(unit: Unit, state: _State) -> int:
    if postmaster_lock.postmaster_pid(Path(unit.data)) is not None:
        return 0
    if state.starts >= unit.burst:
        state.keep(state.starts, "start-limit-hit")
        _say(f"Job for {unit.name} failed.\nStart request repeated too quickly.", sys.stderr)
        return 1
    done = _pg_ctl(unit, "start", "-l", unit.log)
    state.keep(state.starts + 1, "success" if done == 0 else "exit-code")
    if done != 0:
        _say(f"Job for {unit.name} failed because the control process exited with error code.", sys.stderr)
    return done


def _stop(unit: Unit, _: _State) -> int:
    return _pg_ctl(unit, "stop", "-m", "fast") if postmaster_lock.postmaster_pid(Path(unit.data)) else 0


def _restart(unit: Unit, state: _State) -> int:
    return _stop(unit, state) or _start(unit, state)


def _reload(unit: Unit, _: _State) -> int:
    if not unit.can_reload:
        _say(f"Failed to reload {unit.name}: Job type reload is not applicable for unit.", sys.stderr)
        return 1
    return _pg_ctl(unit, "reload")


def _reset_failed(_: Unit, state: _State) -> int:
    state.keep(0, "success")
    return 0


def _pg_ctl(unit: Unit, action: str, *words: str) -> int:
    argv = [*unit.pg_ctl, action, "-D", unit.data, *(() if action == "reload" else ("-w", "-t", "60")), *words]
    return LocalRunner().run(argv, user=unit.user, check=False).returncode


_ACTIONS = {
    "show": _show,
    "start": _start,
    "stop": _stop,
    "restart": _restart,
    "reload": _reload,
    "reset-failed": _reset_failed,
}
