"""Judge direct I/O: the truth about the log's flags by version, and why data files go without it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from pgdyno.advisor.block_stack import device_of, disks_of, mount_of, place_of, places_of
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.planned import has_direct_io
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution
from pgdyno.model.inventory import Purpose
from pgdyno.units import bytes_text, percent_text

_OPENING = ("open_sync", "open_datasync")


def wal_is_direct(major: int, method: str, level: str, io_direct: str = "") -> bool:
    """Return whether the server opens its log with O_DIRECT. Measured on 13 to 18 from the flags of the open segment.

    Up to 15 the open_ methods do, when no standby or archive needs the log; from 16 only debug_io_direct does, with
    every method. `major` is the server's version; `method`, `level` and `io_direct` are the texts of wal_sync_method,
    wal_level and debug_io_direct, the last empty where the server has no such setting.
    """
    if major >= 16:
        return "wal" in [word.strip() for word in io_direct.split(",")]
    return method in _OPENING and level == "minimal"


def wal_direct_io(case: Case) -> Judgement:
    """Say whether the log is written with O_DIRECT; fire where the method was chosen for it in vain."""
    major, method, level = case.server.major, case.text("wal_sync_method"), case.text("wal_level")
    io_direct = case.text("debug_io_direct") if case.has("debug_io_direct") else ""
    direct = wal_is_direct(major, method, level, io_direct)
    setting = f"debug_io_direct = {io_direct or chr(39) * 2}" if major >= 16 else f"wal_level = {level}"
    facts = f"version {major}, wal_sync_method = {method}, {setting}"
    decided = (Resolution("CON-10", f"The log is {'' if direct else 'not '}opened with O_DIRECT: {facts}."),)
    if case.has("fsync") and case.text("fsync") == "off":
        return DoesNotApply("fsync is off: nothing of the log is flushed, which is the first thing to fix", decided)
    offer = fsync_test(case)
    if method not in _OPENING or direct:
        how = "around the page cache (O_DIRECT)" if direct else "through the page cache"
        return InOrder(
            f"The log is written {how} and flushed by {method} ({facts}): commits are on the medium once it is. Direct "
            f"I/O is not needed for that. {offer.commands[0]} compares the methods on the log's file system.",
            decided,
        )
    return Fires(
        changes=(offer,),
        current=f"{method}, without O_DIRECT",
        proposed="nothing for its own sake; fdatasync, the default, is as safe",
        evidence=(
            f"With {facts} the log is opened with {'O_SYNC' if method == 'open_sync' else 'O_DSYNC'} and without "
            "O_DIRECT: commits are safe, and the page cache takes part.",
        ),
        resolutions=decided,
    )


def fsync_test(case: Case) -> Change:
    """Return pg_test_fsync on the file system of the log: a second for each of its some ten tests."""
    try:
        folder = place_of(case, Purpose.WAL).path
        point = mount_of(case, place_of(case, Purpose.WAL)).point
    except Missing:
        folder, point = "$PGDATA/pg_wal", "unknown"
    file = folder + "/pg_test_fsync.out"
    quoted = file if folder.startswith("$") else shlex.quote(file)
    return Change(ChangeKind.COMMAND, value=f"measured at {point}", commands=(f"pg_test_fsync -s 1 -f {quoted}",))


def direct_io_alignment(case: Case) -> Judgement:
    """Compare the sectors below the log with the blocks in which it is written."""
    block = case.number("wal_block_size")
    disks = [device_of(case.host, name) for name in sorted(disks_of(place_of(case, Purpose.WAL)))]
    if not disks:
        return CannotTell("the disks below pg_wal are unknown (none was read)")
    sectors = {disk.name: known(disk.logical_sector, f"the sector size of {disk.name}") for disk in disks}
    largest = max(sectors.values())
    said = f"The log is written in blocks of {bytes_text(block)}, below it are sectors of {largest} bytes"
    if largest <= 512:
        return InOrder(f"{said}: direct I/O is aligned with any block size.")
    fits = block % largest == 0
    end = "a multiple, so direct I/O is aligned." if fits else "not a multiple: direct I/O would fail with EINVAL."
    return Fires(
        current=", ".join(f"{name}: {size}" for name, size in sectors.items()),
        evidence=(f"{said}: {end}",),
    )


def double_caching(case: Case) -> Judgement:
    """Explain the two caches with this machine's figures."""
    if has_direct_io(case):
        return DoesNotApply("debug_io_direct keeps the data files out of the page cache; the rule of that name warns")
    buffers = case.number("shared_buffers")
    evidence = [f"shared_buffers holds {bytes_text(buffers)}."]
    memory = case.host.memory
    ram = known(memory.ram_bytes, "RAM")
    if not isinstance(memory.page_cache_bytes, Unknown):
        evidence.append(f"The page cache holds {bytes_text(memory.page_cache_bytes)} of {bytes_text(ram)} RAM.")
    twice = min(buffers, ram - buffers)
    evidence.append(
        f"At worst {bytes_text(twice)} of RAM, {percent_text(twice / ram, 1)}, "
        "hold second copies of pages in shared_buffers."
    )
    working = case.evidence.working_set
    if not isinstance(working, Unknown):
        evidence.append(f"The pages that the load touches: {working.kind} ({working.method}).")
    return Fires(current="data files go through the page cache", evidence=tuple(evidence))


def direct_io_sides(case: Case) -> Iterator[Resolution]:
    """Decide CON-11 and CON-28 by version and places; memory has no part in it."""
    tablespaces = len(places_of(case, Purpose.TABLESPACE)) if not isinstance(case.host.places, Unknown) else 0
    where = f"the data directory and {tablespaces} tablespaces" if tablespaces else "the data directory"
    if has_direct_io(case):
        option = f"debug_io_direct = {case.text('debug_io_direct')}"
        yield Resolution("CON-11", f"{option} opens {where} with direct I/O: an option for developers, not advice.")
    else:
        yield Resolution("CON-11", f"Direct I/O does not apply to {where}: {_asynchronous(case)}.")
    yield Resolution("CON-28", f"Raw devices are history (the driver left Linux 5.14); {where} needs a file system.")


def _asynchronous(case: Case) -> str:
    if not case.has("io_method"):
        return f"version {case.server.version or case.server.major} has no asynchronous I/O of its own"
    method = case.text("io_method")
    how = "each read waits" if method == "sync" else "reads are asynchronous"
    return f"with io_method = {method} {how}, through the page cache"
