"""A server whose process is like no other of the machine, a tuner that is like neither, and how both are told apart."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.control import PgCtl
from pgdyno.linux import processes
from pgdyno.owner import memory_policy
from pgdyno.server import postmaster_lock

SECRETS = {"PGPASSWORD": "sesame-1", "AWS_SECRET_ACCESS_KEY": "sesame-2", "SSH_AUTH_SOCK": "/tmp/sesame-3"}
MARKS = {"PATH": "/usr/bin:/bin", "MARK_OF_THE_DBA": "one two=three", "TZ": "Europe/Berlin", "PGDATESTYLE": "ISO, YMD"}
_STRANGE_GROUP = 47_11
_PR_SET_NO_NEW_PRIVS = 38


def start_marked(control: PgCtl, *, as_root: bool = True, cgroup: Path | None = None) -> None:
    """Start the server by pg_ctl from a process with marks of its own; as root with such as only root can give."""
    account = pwd.getpwnam(control.user) if control.user else None
    words = ["-w", "-D", str(control.data_directory), "-l", str(control.log_file)]
    options = ["-o", " ".join(f"'{word}'" for word in control.options)] if control.options else []
    begin = ["ionice", "-c2", "-n6"] if shutil.which("ionice") else []

    def mark() -> None:
        if cgroup is not None:
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        if as_root:
            os.nice(-3)
        Path("/proc/self/oom_score_adj").write_text("123")
        Path("/proc/self/coredump_filter").write_text("0x7")
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        # Lower than the tuner's: not every root may raise a hard limit (CAP_SYS_RESOURCE).
        for kind, soft in (
            (resource.RLIMIT_NOFILE, 777),
            (resource.RLIMIT_MEMLOCK, 1 << 20),
            (resource.RLIMIT_CORE, 4096),
        ):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (soft, 2 * soft if as_root else hard))
        os.umask(0o027)
        with contextlib.suppress(OSError):  # a kernel without NUMA
            memory_policy.write("interleave:0")
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        signal.signal(signal.SIGWINCH, signal.SIG_IGN)
        if account is not None:
            own = os.getgrouplist(account.pw_name, account.pw_gid)
            os.setgroups([*own, *([_STRANGE_GROUP] if as_root else [])])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)

    subprocess.run(
        [*begin, str(control.bin_dir / "pg_ctl"), "start", *words, *options],
        env={**MARKS, **dict(control.env)},
        cwd=control.data_directory.parent,
        preexec_fn=mark,
        check=True,
        stdout=subprocess.DEVNULL,
    )


@contextmanager
def another_process(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make this process unlike the server, and its environment full of secrets, until the block ends. As root."""
    for name, value in SECRETS.items():
        patch.setenv(name, value)
    nice, cpus = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
    limits = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)}
    oom = Path("/proc/self/oom_score_adj")
    score, mask, hangs_up = oom.read_text(), os.umask(0o002), signal.getsignal(signal.SIGUSR2)
    os.setpriority(os.PRIO_PROCESS, 0, 9)
    os.sched_setaffinity(0, {min(cpus)})
    for kind, (_, hard) in limits.items():
        resource.setrlimit(kind, (0 if kind == resource.RLIMIT_CORE else 4000, hard))
    oom.write_text("55")
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        os.sched_setaffinity(0, cpus)
        for kind, pair in limits.items():
            resource.setrlimit(kind, pair)
        oom.write_text(score)
        os.umask(mask)
        signal.signal(signal.SIGUSR2, hangs_up)


def seen(data_directory: Path) -> dict[str, object]:
    """Return what the kernel says of the postmaster, in its own texts, but for what differs from start to start."""
    pid = postmaster_lock.postmaster_pid(data_directory)
    assert pid is not None
    folder = Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    words = ("Umask", "Uid", "Gid", "Groups", "SigIgn", "Cpus_allowed_list", "NoNewPrivs")
    environ = {entry for entry in (folder / "environ").read_bytes().decode().split("\0") if entry}
    io = subprocess.run(["ionice", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return {
        **{word: sorted(status[word].split()) for word in words},
        **{name: (folder / name).read_text() for name in ("limits", "oom_score_adj", "coredump_filter", "cgroup")},
        "slack": (folder / "timerslack_ns").read_text() if os.geteuid() == 0 else "",
        "nice": (folder / "stat").read_text().rpartition(")")[2].split()[16],
        "io": io,
        "NUMA": _text(folder / "numa_maps").split("\n")[0].split(" ")[1:2],
        "environ": {entry for entry in environ if not entry.startswith("PG_GRANDPARENT_PID=")},
        "cwd": (folder / "cwd").readlink(),
        "argv": sorted((folder / "cmdline").read_bytes().split(b"\0")),
    }


def environments(data_directory: Path) -> str:
    """Return the environments of the postmaster and its children as one text."""
    pid = postmaster_lock.postmaster_pid(data_directory)
    assert pid is not None
    pids = [pid, *(stat.pid for stat in processes.children_of(pid))]
    return "\n".join(_text(Path("/proc") / str(one) / "environ") for one in pids)


def secrets_in(*texts: str) -> Sequence[str]:
    """Return the secrets and their names that a text holds."""
    return [word for pair in SECRETS.items() for word in pair if any(word in text for text in texts)]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
