"""The whole preflight: read, judge, report everything that is in the way at once."""

from __future__ import annotations

import inspect
import os
import pwd
import sys
from collections.abc import Sequence
from dataclasses import replace

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.knobs.memory import MEMORY_KNOBS, shared_bytes
from pgdyno.knobs.policy import load_policy
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Unknown
from pgdyno.owner.runner import Runner
from pgdyno.preflight import connections, huge_pages, io_method, io_uring_probe, memory
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_host import SharedSegment, StartHost, free_bytes, read_host_limits
from pgdyno.preflight.reading_server import ServerReading, read_server
from pgdyno.preflight.reading_start import COMPUTED_SINCE, StartReading, read_start
from pgdyno.preflight.result import Result, State
from pgdyno.preflight.server_checks import overrides, standbys, start, wal_disk, would_be_overridden
from pgdyno.routes.file_check import read_files
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.overrides import read_reach
from pgdyno.targets.target import Target
from pgdyno.undo import server_process


def check(
    target: Target,
    configuration: Configuration,
    *,
    restart: bool,
    databases: Sequence[str] = (),
    inherits_ours: bool = False,
    attached: Sequence[str] = (),
) -> tuple[str, ...]:
    """Refuse a configuration that is staged and would not come into force; nothing was changed then.

    Call it after the files of `target` were accepted (`precheck.check_files`) and before the reload, or with `restart`
    the restart; `databases` are the load's, by name. `inherits_ours`: the session could not keep the server's process,
    and a restart would make a child of ours with our limits (`server_process.is_born_of_us`). `attached` are standbys
    that were seen before; all that are known are returned, because one whose primary was restarted comes back only
    seconds later. Raises ApplyError with all that is in the way: the first in the message, the others in the detail.
    """
    plan = StartPlan.of(configuration, read_files(target.postgres), restart=restart)
    server = read_server(target.postgres)
    known = tuple(sorted({*attached, *server.standbys}))
    judged = _judge(target, plan, replace(server, standbys=known), databases, inherits_ours)
    bad = [result for result in judged if result.state is State.REFUSED]
    if not bad:
        return known
    first, *others = bad
    lines = [*(f"{result.check}: {result.sentence}" for result in others), "The server was not touched."]
    raise ApplyError(f"preflight: {first.sentence}", detail="\n".join(lines), hint=first.hint)


def examine(target: Target, configuration: Configuration, databases: Sequence[str] = ()) -> list[Result]:
    """Judge a configuration that is in no file yet, as if it were applied. No effect on server and files.

    Raises ConnectError, and EnvironmentUnsuitable when the role may not read `pg_file_settings`.
    """
    if target.remote is not None:
        return target.remote.examine(configuration, databases)
    reading = read_files(target.postgres)
    state = reading.settings
    names = [name for name in configuration if name in state]
    wanted = StartPlan.of(configuration, reading, restart=True, dry=True)
    restart = any(state[name].context == "postmaster" and wanted.changes(name) for name in names)
    plan = StartPlan.of(configuration, reading, restart=restart, dry=True)
    reach = read_reach(target, state)
    files = would_be_overridden(names, reading, reach.in_server, reach.by_alter_system)
    # A server that is not disposable is restarted as the process that it is, or not at all.
    kept = server_process.take(target, target.directory) if restart and target.disposable and target.directory else None
    inherits_ours = kept is not None and server_process.is_born_of_us(target, kept.image)
    return [files, *_judge(target, plan, read_server(target.postgres), databases, inherits_ours)]


def _judge(
    target: Target, plan: StartPlan, server: ServerReading, databases: Sequence[str], inherits_ours: bool
) -> list[Result]:
    pid = target.cpu.postmaster()
    host = read_host_limits(pid, inherits_ours=inherits_ours) if pid is not None else None
    begun = read_start(target, plan) if plan.restart else StartReading(())
    return [
        start(plan, begun),
        *(_host_checks(target, plan, server, host, begun) if host is not None else []),
        wal_disk(plan, server.wal_bytes, _wal_volume(target)),
        standbys(plan, server, load_policy().standby_ordered),
        overrides(plan, server, databases),
    ]


def _host_checks(
    target: Target, plan: StartPlan, server: ServerReading, host: StartHost, begun: StartReading
) -> Sequence[Result]:
    need = _shared_memory(target, plan, host, begun)
    pages = begun.huge_pages
    if plan.major < COMPUTED_SINCE:
        pages = huge_pages.pages_needed(need, huge_pages.page_bytes(plan, host))
    wants_ring = plan.restart and plan.text("io_method") == "io_uring" and "io_uring" in server.io_methods
    probe = read_io_uring(target.runner, target.os_user) if wants_ring else Unknown("io_uring is not asked for")
    return [
        memory.shared_memory(plan, need, host),
        memory.commit_limit(plan, need, host),
        huge_pages.huge_pages(plan, pages, host),
        io_method.io_method(plan, server, host, probe),
        connections.processes_and_files(plan, host),
        connections.system_v_memory(plan, need if isinstance(need, int) else None, host),
        connections.semaphores(plan, host),
    ]


def _shared_memory(target: Target, plan: StartPlan, host: StartHost, begun: StartReading) -> int | Unknown:
    """Return what the server says it needs (15); before, what it has now and the difference by our formula.

    The formula alone stands in where neither can be had: shared_buffers are most of it.
    """
    if isinstance(begun.shared_memory, int) or not plan.restart:
        return begun.shared_memory
    facts = read_facts(target)
    planned = {name: text for name in MEMORY_KNOBS if (text := plan.text(name)) is not None}
    after = shared_bytes(planned, facts)
    if isinstance(host.segment, SharedSegment):
        return int(host.segment.size_bytes + after - shared_bytes({}, facts))
    return int(after)


def _wal_volume(target: Target) -> int | Unknown:
    if target.directory is None:
        return Unknown("the server's data directory is not on this host, or cannot be read")
    return free_bytes(target.directory / "pg_wal")


def read_io_uring(runner: Runner, user: str | None) -> int | Unknown:
    """Return the errno of io_uring_setup(2), 0 when a ring was granted; asked once, given back at once.

    It is asked from our own container and seccomp filter: a server in another one may be told otherwise.
    """
    uid = gid = -1
    if user is not None:
        account = pwd.getpwnam(user)
        if account.pw_uid != os.geteuid():
            if os.geteuid() != 0:
                return Unknown(f'only root can ask as user "{user}"')
            uid, gid = account.pw_uid, account.pw_gid
    # As text: on another host this package is inside a zip, where no interpreter finds a script.
    program = [sys.executable, "-I", "-S", "-c", inspect.getsource(io_uring_probe), str(uid), str(gid)]
    try:
        return int(runner.run(program, timeout_s=30).stdout)
    except (EnvironmentUnsuitable, ValueError) as error:
        return Unknown(f"the probe could not be run: {error}")
