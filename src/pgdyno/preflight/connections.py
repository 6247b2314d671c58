"""Whether processes, files and semaphores suffice for the sessions that may come. Pure."""

from __future__ import annotations

from pgdyno.model.facts import Unknown
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_host import StartHost
from pgdyno.preflight.result import Result, not_applicable, noted, passed, refused
from pgdyno.units import bytes_text

_AUXILIARY = 8
"""Launcher, checkpointer, writers, archiver, ... beside backends and I/O workers (proc.h: NUM_AUXILIARY_PROCS)."""
_LEAST_FILES = 64
"""Below this a server does not start: FD_MINFREE and NUM_RESERVED_FDS of fd.c, and the sockets."""
_SEMAPHORES_PER_SET = 16
"""SEMAS_PER_SET of sysv_sema.c; each set holds one more for identification (documentation, 18.4.1)."""


def processes_of(plan: StartPlan) -> int:
    """Return how many processes the server may ever have: sessions, workers, walsenders and its own."""
    slots = plan.number("autovacuum_worker_slots")  # 18; before, every autovacuum worker has one
    vacuums = plan.number("autovacuum_max_workers") if slots is None else slots
    others = sum(plan.number(name) or 0 for name in ("max_connections", "max_worker_processes", "max_wal_senders"))
    return int(others + (vacuums or 0)) + _AUXILIARY


def processes_and_files(plan: StartPlan, host: StartHost) -> Result:
    """Compare the processes that max_connections and the workers allow with RLIMIT_NPROC, pids.max and pid_max.

    The server starts and refuses sessions later, so that is a note; too few open files keep it from starting.
    """
    check = "processes and files"
    if not plan.restart:
        return not_applicable(check, "a reload adds none")
    files = host.limits.open_files
    if files is not None and files < _LEAST_FILES:
        return refused(
            check,
            f"{host.limits.source} may open {files} files, and a server needs {_LEAST_FILES}",
            asked=str(_LEAST_FILES),
            there=str(files),
            hint="Raise ulimit -n, or LimitNOFILE of the unit.",
        )
    need = processes_of(plan)
    pid_max = host.sysctl.get("kernel/pid_max", "")
    limits = {
        "RLIMIT_NPROC": host.limits.processes,
        "pids.max of the cgroup": host.pids_limit,
        "kernel.pid_max": int(pid_max) if pid_max.isdigit() else None,
    }
    known = {name: limit for name, limit in limits.items() if limit is not None}
    name, least = min(known.items(), key=lambda item: item[1], default=("no limit", need))
    if need > least:
        return noted(
            check,
            f"{plan.figure('max_connections')} allows {need} processes, and {name} is {least}",
            asked=f"{need} processes",
            there=f"{least} ({name})",
            hint=f"Raise {name}, or lower max_connections.",
        )
    return _file_table(plan, need, host) or passed(
        check, "limits suffice", asked=f"{need} processes", there=f"{least} ({name})"
    )


def _file_table(plan: StartPlan, processes: int, host: StartHost) -> Result | None:
    most, used = host.sysctl.get("fs/file-max", ""), host.sysctl.get("fs/file-nr", "").split()
    each = plan.number("max_files_per_process")
    if not most.isdigit() or not used or each is None:
        return None
    need, there = int(processes * each), int(most) - int(used[0])
    if need <= there:
        return None
    return noted(
        "processes and files",
        f"{processes} processes with {plan.figure('max_files_per_process')} may open {need} files, "
        f"and fs.file-max leaves {there}",
        asked=f"{need} files",
        there=f"{there} files",
        hint="Raise fs.file-max, or lower max_files_per_process.",
    )


def system_v_memory(plan: StartPlan, need: int | None, host: StartHost) -> Result:
    """Compare the shared memory with kernel.shmmax and shmall, for shared_memory_type = sysv alone."""
    check = "System V memory"
    if plan.text("shared_memory_type") != "sysv":
        return not_applicable(check, f"shared_memory_type = {plan.text('shared_memory_type')}")
    shmmax, shmall = host.sysctl.get("kernel/shmmax", ""), host.sysctl.get("kernel/shmall", "")
    if not plan.restart or need is None or not (shmmax.isdigit() and shmall.isdigit()):
        return not_applicable(check, "the size is not known, or a reload is enough")
    there = min(int(shmmax), int(shmall) * 4096)
    figures = {"asked": bytes_text(need), "there": bytes_text(there)}
    if need > there:
        hint = f"Run sysctl kernel.shmmax={need} kernel.shmall={-(-need // 4096)}, or choose mmap."
        if isinstance(host.memory_limit, Unknown) or need > host.memory_limit:
            hint = "Choose smaller shared_buffers: so much memory is not there."
        sentence = f"{figures['asked']} do not fit into kernel.shmmax and kernel.shmall"
        return refused(check, sentence, **figures, hint=hint)
    return passed(check, "kernel.shmmax and kernel.shmall suffice", **figures)


def semaphores(plan: StartPlan, host: StartHost) -> Result:
    """Compare System V semaphores with kernel.sem, for builds that use them; most on Linux use POSIX ones."""
    check = "semaphores"
    words = host.sysctl.get("kernel/sem", "").split()
    if host.semaphore_sets == 0:
        return not_applicable(check, "the server holds no System V semaphores")
    if not plan.restart or len(words) != 4:
        return not_applicable(check, "a reload takes none" if not plan.restart else "kernel.sem cannot be read")
    sets = -(-processes_of(plan) // _SEMAPHORES_PER_SET)
    most_each, most_all, _, most_sets = (int(word) for word in words)
    total = sets * (_SEMAPHORES_PER_SET + 1)
    figures = {"asked": f"{sets} sets, {total} in all", "there": f"{most_sets} sets, {most_all} in all"}
    if sets > most_sets or total > most_all or most_each <= _SEMAPHORES_PER_SET:
        hint = f"Run sysctl kernel.sem='{max(most_each, 17)} {max(total, most_all)} 100 {max(sets, most_sets)}'."
        return refused(check, f"{plan.figure('max_connections')} needs more than kernel.sem has", **figures, hint=hint)
    return passed(check, "kernel.sem suffices", **figures)
