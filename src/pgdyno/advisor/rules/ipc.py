"""System V shared memory, semaphores and messages: floors for those who use them, never a lower limit than there is."""

from __future__ import annotations

import math

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.system_v import (
    SEMAPHORE_NAMES,
    message_floors,
    parse_semaphores,
    semaphore_floor,
    shared_memory_floors,
    shared_memory_rows,
)
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution
from pgdyno.units import binary_text

_PER_SET = 16
"""Semaphores that PostgreSQL keeps in one set; one more in each is its own mark."""
_USERS = "`ipcs -a` shows whether another program on this host uses System V objects"


def shared_memory(case: Case) -> Judgement:
    """Compare the limits of shared memory with the table, for users of System V memory only."""
    ram = known(case.host.memory.ram_bytes, "RAM")
    page = known(case.host.memory.page_size, "the page size")
    floors = shared_memory_floors(ram, page)
    limits = {name: case.sysctl_number(name) for name in floors}
    low = {name: floor for name, floor in floors.items() if limits[name] < floor}
    resolutions = _table_resolutions(low, limits, page)
    user = _shared_memory_user(case)
    if user is None:
        above = "" if low else f" They are already above the table for {binary_text(ram)}: nothing to do."
        return DoesNotApply(
            "PostgreSQL's main memory is not System V memory (shared_memory_type = mmap, and always from 9.3 to 11), "
            f"so that these limits do not bind it; {_USERS}.{above}",
            resolutions,
        )
    if not low:
        text = ", ".join(f"{name} = {limit}" for name, limit in limits.items())
        return InOrder(f"Already above the table for {binary_text(ram)}: {text}. Nothing to do.", resolutions)
    return Fires(
        changes=_raise(low, limits),
        evidence=(
            user,
            f"For {binary_text(ram)} of memory the table gives {binary_text(floors['kernel.shmmax'])} for one segment; "
            f"kernel.shmall counts pages of {binary_text(page)}.",
        ),
        resolutions=resolutions,
    )


def semaphores(case: Case) -> Judgement:
    """Compare kernel.sem with what the server needs, and with the table where others use semaphores."""
    text = case.sysctl("kernel.sem")
    limits = parse_semaphores(text)
    if limits is None:
        return DoesNotApply(f'kernel.sem = "{text}" is not four numbers')
    need, source = _semaphore_need(case)
    sets = math.ceil(need / _PER_SET)
    needed = (_PER_SET + 1, need + sets, 1, sets)
    others = _others(case, "sem")
    floor = tuple(max(a, b) for a, b in zip(needed, semaphore_floor(), strict=True)) if others else needed
    wanted = tuple(max(a, b) for a, b in zip(limits, floor, strict=True))
    words = ", ".join(f"{name} {limit}" for name, limit in zip(SEMAPHORE_NAMES, limits, strict=True))
    if wanted == limits:
        return InOrder(f"kernel.sem allows {words}; the server needs at most {need} ({source}).")
    value = " ".join(str(number) for number in wanted)
    evidence = [f"The server needs {need} semaphores in {sets} sets ({source}).", f"kernel.sem allows {words}."]
    if others:
        evidence.append(others)
    evidence.append("Builds for Linux use unnamed POSIX semaphores as a rule, which these limits do not count.")
    return Fires(
        changes=(Change(ChangeKind.LINUX, "kernel.sem", value, " ".join(text.split())),),
        evidence=tuple(evidence),
    )


def messages(case: Case) -> Judgement:
    """Compare the limits of message queues with the table; PostgreSQL uses none."""
    limits = {name: case.sysctl_number(name) for name in message_floors()}
    low = {name: floor for name, floor in message_floors().items() if limits[name] < floor}
    text = ", ".join(f"{name} = {limits[name]} (floor {floor})" for name, floor in message_floors().items())
    others = _others(case, "msg")
    if not low:
        return InOrder(f"All above the floors of the table: {text}.")
    if others is None:
        return DoesNotApply(f"PostgreSQL uses no message queues; for DB2, Oracle or Informix: {text}; {_USERS}")
    return Fires(
        changes=_raise(low, limits),
        evidence=(others,),
    )


def _raise(low: dict[str, int], limits: dict[str, int]) -> tuple[Change, ...]:
    return tuple(Change(ChangeKind.LINUX, name, str(floor), str(limits[name])) for name, floor in low.items())


def _shared_memory_user(case: Case) -> str | None:
    if case.has("shared_memory_type") and case.text("shared_memory_type") == "sysv":
        return "shared_memory_type is sysv: the server's main memory is System V memory."
    return _others(case, "shm")


def _others(case: Case, kind: str) -> str | None:
    """Return a sentence when others on this host use objects of a kind; None when none do or nobody knows."""
    foreign = case.host.foreign_ipc
    count = 0 if isinstance(foreign, Unknown) else foreign.get(kind, 0)
    names = {"shm": "shared memory segments", "sem": "semaphore sets", "msg": "message queues"}
    return f"{count} System V {names[kind]} of other programs are on this host." if count else None


def _semaphore_need(case: Case) -> tuple[int, str]:
    """Return the semaphores that the server needs: as 18 says, else by the documentation's formula."""
    if isinstance(case.server.semaphores, int):
        return case.server.semaphores, "num_os_semaphores"
    if case.has("num_os_semaphores"):
        return int(case.number("num_os_semaphores")), "num_os_semaphores"
    names = ("max_connections", "autovacuum_max_workers", "max_wal_senders", "max_worker_processes")
    total = sum(int(case.number(name)) for name in names) + 7
    return total, f"{' + '.join(names)} + 7"


def _table_resolutions(low: dict[str, int], limits: dict[str, int], page: int) -> tuple[Resolution, ...]:
    wrong = " and ".join(f"{row.memory_gb} GB" for row in shared_memory_rows() if not row.is_consistent)
    above = "below the table: " + ", ".join(low) if low else "above the table, and left as they are"
    return (
        Resolution("CON-26", f"The limits here are {above}; shmmax is {limits['kernel.shmmax']}."),
        Resolution(
            "CON-27",
            f"The rows of {wrong} give less memory in all than to one segment; shmall is shmmax over the page size of "
            f"{binary_text(page)}.",
        ),
    )
