"""Start a server as a person would, with an environment and limits of its own, and a tuner that differs in all of them.

Both become what they are after the fork and then exec, so that the process that is watched is the one that was started.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from state import postmaster_of, process_of

from pgdyno.server import postmaster_lock

LEAK = "torture-leak"
"""A word in variables of the tuner that no process of a server may have."""
SECRETS = {
    "PGPASSWORD": f"{LEAK}-1",
    "AWS_SECRET_ACCESS_KEY": f"{LEAK}-2",
    "SSH_AUTH_SOCK": f"/nonexistent/{LEAK}-3",
}
OWN = {"PATH": "/usr/bin:/bin", "TORTURE_OWN": "two words = 'kept'\nand a line", "TORTURE_EMPTY": "", "LC_ALL": "C"}
"""The variables that the server has and the tuner has not."""
_BECOME = """
import json, os, resource, signal, sys
given = json.loads(sys.argv[1])
for group in given["cgroups"]:
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
os.sched_setaffinity(0, given["affinity"])
os.nice(given["nice"])
for name, (soft, hard) in given["limits"].items():
    resource.setrlimit(getattr(resource, name), (soft, hard))
with open("/proc/self/oom_score_adj", "w") as file:
    file.write(str(given["oom"]))
os.umask(given["umask"])
if given["uid"]:
    os.setgroups(given["groups"])
    os.setresgid(*[given["gid"]] * 3)
    os.setresuid(*[given["uid"]] * 3)
os.execve(sys.argv[2], sys.argv[2:], given["environment"])
"""
_START_S = 60.0


def start_tuner(
    words: Sequence[str], environment: Mapping[str, str], *, cpu: int, stdout: IO[bytes], stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start pgdyno as `start_other` starts a program."""
    command = [sys.executable, "-m", "pgdyno", *words]
    return start_other(command, environment, cpu=cpu, stdout=stdout, stderr=stderr)


def start_other(
    words: Sequence[str], environment: Mapping[str, str], *, cpu: int, stdout: IO[bytes], stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a program with less priority, one CPU, no core files and secrets; SIGINT does what it does in a terminal.

    It leads a process group of its own.
    """
    cpus = sorted(os.sched_getaffinity(0))
    given = {
        "cgroups": [], "affinity": [cpus[cpu % len(cpus)]], "nice": 1,
        "limits": {"RLIMIT_CORE": [0, 1 << 30]}, "oom": 200,
        "umask": 0o002, "uid": 0, "environment": {**environment, **SECRETS},
    }  # fmt: skip
    command = [sys.executable, "-I", "-S", "-c", _BECOME, json.dumps(given), *words]
    return subprocess.Popen(command, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL, start_new_session=True)


class OwnServer:
    """The server of a sandbox that its own program has started once, from then on started by hand."""

    def __init__(self, data: Path, log: Path) -> None:
        self._data, self._log = data, log
        found = process_of(data)
        self._postgres = Path(found["process program"])
        self._cgroups = _folders_of(found) if os.geteuid() == 0 else []
        library = found.get("process variable LD_LIBRARY_PATH")
        self._environment = OWN if library is None else OWN | {"LD_LIBRARY_PATH": library}

    def start(self) -> None:
        """Start it and wait; do nothing when it runs."""
        if postmaster_of(self._data) is not None:
            return
        postmaster_lock.clear(self._data, reused=True)
        owner = pwd.getpwuid(self._data.stat().st_uid)
        root = os.geteuid() == 0
        given = {
            "cgroups": self._cgroups, "affinity": sorted(os.sched_getaffinity(0)), "nice": 0,
            "limits": {"RLIMIT_CORE": [1 << 20, 1 << 30], "RLIMIT_NOFILE": [3333, 4444]}, "oom": 7, "umask": 0o077,
            "uid": owner.pw_uid if root else 0, "gid": owner.pw_gid,
            "groups": os.getgrouplist(owner.pw_name, owner.pw_gid), "environment": self._environment,
        }  # fmt: skip
        pg_ctl = [str(self._postgres.with_name("pg_ctl")), "start", "-w", "-D", str(self._data), "-l", str(self._log)]
        command = [sys.executable, "-I", "-S", "-c", _BECOME, json.dumps(given), *pg_ctl]
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=_START_S, check=False,
            start_new_session=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"the server in {self._data} did not start: {self._log.read_text()[-2000:]}")

    def restart(self) -> None:
        """Shut it down cleanly and start it by hand."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Shut it down as a person does, fast and cleanly."""
        pid = postmaster_of(self._data)
        if pid is not None:
            os.kill(pid, 2)
        deadline = time.monotonic() + _START_S
        while (self._data / "postmaster.pid").exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server in {self._data} did not stop")
            time.sleep(0.02)


def _folders_of(process: Mapping[str, str]) -> list[str]:
    """Return the cgroup folders that a server was in, where it was put into one of its own."""
    found = []
    for name, place in process.items():
        if name.startswith("process cgroup") and "pgdyno" in place:
            controllers = name.removeprefix("process cgroup").strip().removeprefix("name=")
            roots = [Path("/sys/fs/cgroup") / controllers, Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
            found += [str(root) + place for root in roots if Path(str(root) + place).is_dir()][:1]
    return found
