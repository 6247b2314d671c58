"""What a server's process is beside its settings: environment, limits, priorities, CPUs, cgroups and the like.

A process inherits all of this from whoever starts it, so a server that we start again would be as our own process is.
What it was is read from /proc/PID (proc(5)) before the first change and put on by `launch.py` before the server's
program runs. Standard library only. Values are plain JSON; values of the environment may be secrets: they are in no
`repr` and in no sentence that this module returns.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pgdyno.linux.cgroups import cgroup_trees
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.linux.processes import PROC
from pgdyno.owner import memory_policy

SET_AT_EACH_START = frozenset(
    {
        # by pg_ctl, which names the directory as its own -D does, and by the shell that it runs the server in
        *("PG_GRANDPARENT_PID", "PGDATA", "PWD", "OLDPWD", "SHLVL", "_"),
        # by systemd (systemd.exec(5)), of this one start of the unit
        *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MANAGERPID", "NOTIFY_SOCKET", "LISTEN_PID"),
        *("WATCHDOG_PID", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"),
    }
)
"""Variables that each start of a server makes again, and that say nothing of how it was started."""
_OF_GLIBC = (32, 33)
_CALLS = {  # the numbers of ioprio_set and ioprio_get (syscalls(2))
    "x86_64": (251, 252),
    "aarch64": (30, 31),
    "riscv64": (30, 31),
    "ppc64le": (273, 274),
    "ppc64": (273, 274),
    "s390x": (282, 283),
}
_LIMITS = {  # what /proc/PID/limits calls them, and setrlimit(2)
    "Max cpu time": "CPU",
    "Max file size": "FSIZE",
    "Max data size": "DATA",
    "Max stack size": "STACK",
    "Max core file size": "CORE",
    "Max resident set": "RSS",
    "Max processes": "NPROC",
    "Max open files": "NOFILE",
    "Max locked memory": "MEMLOCK",
    "Max address space": "AS",
    "Max pending signals": "SIGPENDING",
    "Max msgqueue size": "MSGQUEUE",
    "Max nice priority": "NICE",
    "Max realtime priority": "RTPRIO",
    "Max realtime timeout": "RTTIME",
}
_WHO_PROCESS, _PR_SET_TIMERSLACK, _PR_SET_NO_NEW_PRIVS = 1, 29, 38


@dataclass(frozen=True, slots=True)
class ProcessImage:
    """A process as it was found. `values` holds `ATTRIBUTES` by name; `unknown` why one of them could not be read.

    `environment` is what the process was executed with, None where it could not be read (`unknown` says why).
    """

    identity: ProcessIdentity
    uid: int
    gid: int
    argv: tuple[str, ...]
    directory: str | None
    environment: Mapping[str, str] | None = field(repr=False)
    values: Mapping[str, Any]
    unknown: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, the environment among them: only for files that nobody else may read."""
        return asdict(self)

    def put_on(self) -> tuple[str, ...]:
        """Make this very process like the image, but for account and environment; return what could not be done."""
        failed = []
        for attribute in ATTRIBUTES:
            wanted = self.values.get(attribute.name)
            try:
                if wanted is not None and attribute.read(os.getpid()) != wanted:
                    attribute.write(wanted)
            except (OSError, ValueError) as error:
                failed.append(f"{attribute.name}: {error}")
        return tuple(failed)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One thing that a process inherits: how it is read of a process, and written of this one. Both raise OSError."""

    name: str
    read: Callable[[int], Any]
    write: Callable[[Any], object]


def capture(pid: int) -> ProcessImage:
    """Read a running process. Raises OSError when it has ended or belongs to more than one account."""
    identity = ProcessIdentity.of(pid)
    if identity is None:
        raise ProcessLookupError(f"process {pid} has ended")
    status = _status_text(pid)  # once: a program with more rights may be executed in between, which keeps the number
    uids, gids = (set(map(int, _field(status, name).split())) for name in ("Uid", "Gid"))
    if len(uids) != 1 or len(gids) != 1:
        raise PermissionError(f"process {pid} has rights of more than one account")
    values: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, read in {**{one.name: one.read for one in ATTRIBUTES}, "environment": _environment}.items():
        try:
            values[name] = read(pid)
        except (OSError, ValueError) as error:
            unknown[name] = getattr(error, "strerror", None) or str(error)
    values["groups"] = _groups_in(status)
    try:
        directory = str((PROC / str(pid) / "cwd").readlink())
    except OSError:
        directory = None
    words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[:-1]
    environment = values.pop("environment", None)
    if ProcessIdentity.of(pid) != identity:
        raise ProcessLookupError(f"process {pid} ended meanwhile")
    argv = tuple(map(os.fsdecode, words))
    return ProcessImage(identity, uids.pop(), gids.pop(), argv, directory, environment, values, unknown)


def differences(before: ProcessImage, after: ProcessImage) -> tuple[str, ...]:
    """Return what is known of both and differs, as `NAME NEW instead of OLD`; of variables, their names alone."""
    found = []
    if (before.uid, before.gid) != (after.uid, after.gid):
        found.append(f"account {after.uid}:{after.gid} instead of {before.uid}:{before.gid}")
    for name in before.values:
        old, new = before.values[name], after.values.get(name)
        if new is None or old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            parts = [part for part in sorted({*old, *new}) if old.get(part) != new.get(part)]
            found += [_sentence(f"{name} {part}".strip(), old.get(part), new.get(part)) for part in parts]
        else:
            found.append(_sentence(name, old, new))
    return (*found, *_of_environment(before.environment, after.environment))


def _of_environment(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> list[str]:
    if before is None or after is None:
        return []
    old, new = ({k: v for k, v in one.items() if k not in SET_AT_EACH_START} for one in (before, after))
    groups = {
        "more variables": new.keys() - old.keys(),
        "without the variables": old.keys() - new.keys(),
        "another value of": {name for name in old.keys() & new.keys() if old[name] != new[name]},
    }
    return [f"{how} {', '.join(sorted(which))}" for how, which in groups.items() if which]


def _sentence(name: str, old: object, new: object) -> str:
    return f"{name} {_text(new)} instead of {_text(old)}"


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join("unlimited" if one == resource.RLIM_INFINITY else str(one) for one in value) or "empty"
    return "not there" if value is None else str(value)


def _status_text(pid: int) -> str:
    return (PROC / str(pid) / "status").read_text(errors="replace")


def _status(pid: int, name: str) -> str:
    return _field(_status_text(pid), name)


def _field(status: str, name: str) -> str:
    for line in status.splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    raise OSError(f"/proc/PID/status has no {name}")


def _environment(pid: int) -> dict[str, str]:
    entries = os.fsdecode((PROC / str(pid) / "environ").read_bytes()).split("\0")
    pairs = (entry.partition("=") for entry in entries)
    return {name: value for name, equals, value in pairs if name and equals}


def _groups_in(status: str) -> list[int]:
    return sorted(map(int, _field(status, "Groups").split()))


def _capabilities(pid: int) -> dict[str, str]:
    status = _status_text(pid)
    return {name: _field(status, name) for name in ("CapPrm", "CapEff", "CapAmb")}


def _refuse_capabilities(_: object) -> None:
    raise OSError("pgdyno gives a server no capabilities")


def _set_no_new_privileges(value: int) -> None:
    if value and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _read_cgroups(pid: int) -> dict[str, str]:
    """Return the group by the controllers of its tree; the v2 tree has none in its name."""
    lines = (PROC / str(pid) / "cgroup").read_text().splitlines()
    return {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}


def _join_cgroups(wanted: Mapping[str, str]) -> None:
    now, missed = _read_cgroups(os.getpid()), []
    for controllers, path in wanted.items():
        if now.get(controllers) != path:
            try:
                (_cgroup_folder(controllers, path) / "cgroup.procs").write_text(str(os.getpid()))
            except OSError as error:
                missed.append(f"{path}: {error.strerror or error}")
    if missed:
        raise OSError("; ".join(missed))


def _cgroup_folder(controllers: str, path: str) -> Path:
    for tree in cgroup_trees((PROC / "self/mountinfo").read_text()):
        names = controllers.split(",")
        is_it = set(names) <= tree.controllers if controllers else tree.version == 2
        group = tree.group_of(f"0:{controllers}:{path}", names[0]) if is_it else None
        if group is not None:
            return group
    raise FileNotFoundError("no mount shows this group")


def _read_limits(pid: int) -> dict[str, list[int]]:
    """Return soft and hard limit by the kind's name. Not by prlimit(2), for which even the owner may lack the right."""
    found = {}
    for line in (PROC / str(pid) / "limits").read_text().splitlines()[1:]:
        words = line[26:].split()
        if line[:26].strip() in _LIMITS:
            found[_LIMITS[line[:26].strip()]] = [-1 if word == "unlimited" else int(word) for word in words[:2]]
    return found


def _set_limits(wanted: Mapping[str, list[int]]) -> None:
    now, missed = _read_limits(os.getpid()), []
    for name, pair in wanted.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None or now[name] == pair:
            continue
        soft, hard = pair
        try:
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError) as error:  # as near to it as our own hard limit lets us
            missed.append(f"{name}: {error}")
            bound = now[name][1]
            resource.setrlimit(kind, (bound if bound != -1 and not 0 <= soft <= bound else soft, bound))
    if missed:
        raise OSError("; ".join(missed))


def _ignored(pid: int) -> list[int]:
    mask = int(_status(pid, "SigIgn"), 16)
    return [number for number in range(1, 65) if mask >> (number - 1) & 1 and number not in _OF_GLIBC]


def _ignore(wanted: list[int]) -> None:
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP, *_OF_GLIBC):
            signal.signal(number, signal.SIG_IGN if number in wanted else signal.SIG_DFL)


def _system_call(*words: int) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    answer = int(library.syscall(*map(ctypes.c_long, words)))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def _priority_calls() -> tuple[int, int]:
    calls = _CALLS.get(platform.machine())
    if calls is None:
        raise OSError(f"the call is not known for {platform.machine()}")
    return calls


def _set_timer_slack(value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _number_in(name: str, base: int) -> Callable[[int], int]:
    return lambda pid: int((PROC / str(pid) / name).read_text(), base)


def _write_own(name: str, value: str) -> None:
    (PROC / "self" / name).write_text(value)


ATTRIBUTES: tuple[Attribute, ...] = (
    # In this order: cgroups first, because a cpuset that is entered resets the CPUs; limits late, because a small one
    # would keep the rest from being read; groups last.
    Attribute("cgroup", _read_cgroups, _join_cgroups),
    Attribute("oom_score_adj", _number_in("oom_score_adj", 10), lambda value: _write_own("oom_score_adj", str(value))),
    Attribute(
        "scheduling policy and priority",
        lambda pid: [os.sched_getscheduler(pid), os.sched_getparam(pid).sched_priority],
        lambda value: os.sched_setscheduler(0, value[0], os.sched_param(value[1])),
    ),
    Attribute(
        "nice value",
        lambda pid: os.getpriority(os.PRIO_PROCESS, pid),
        lambda value: os.setpriority(os.PRIO_PROCESS, 0, value),
    ),
    Attribute(
        "CPU affinity",
        lambda pid: sorted(os.sched_getaffinity(pid)),
        lambda value: os.sched_setaffinity(0, value),
    ),
    Attribute(
        "I/O priority",
        lambda pid: _system_call(_priority_calls()[1], _WHO_PROCESS, pid),
        lambda value: _system_call(_priority_calls()[0], _WHO_PROCESS, 0, value),
    ),
    Attribute(
        "core dump filter",
        _number_in("coredump_filter", 16),
        lambda value: _write_own("coredump_filter", hex(value)),
    ),
    Attribute("timer slack in ns", _number_in("timerslack_ns", 10), _set_timer_slack),
    Attribute("NUMA policy", memory_policy.read, memory_policy.write),
    Attribute("umask", lambda pid: int(_status(pid, "Umask"), 8), lambda value: os.umask(value)),
    Attribute("ignored signals", _ignored, _ignore),
    Attribute("limit", _read_limits, _set_limits),
    Attribute("no new privileges", lambda pid: int(_status(pid, "NoNewPrivs")), _set_no_new_privileges),
    Attribute("capabilities", _capabilities, _refuse_capabilities),
    Attribute("groups", lambda pid: _groups_in(_status_text(pid)), os.setgroups),
)
"""What is kept of a process, in the order in which another one puts it on."""
