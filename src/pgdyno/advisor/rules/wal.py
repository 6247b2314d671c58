"""Judges of the rules on the write-ahead log and on what keeps committed data safe."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgdyno.advisor.amounts import FULL_TIMES
from pgdyno.advisor.case import Case, Missing
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.advisor.planned import change_to, counted, planned, proposes, shown, writes
from pgdyno.advisor.wal_pressure import HeavyImages, heavy_images
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Cost, Resolution, Severity
from pgdyno.units import bytes_text

MB = 1 << 20
_OFF = ("off", "false", "no", "0")
"""What the server takes for off, as it was written: what a role or database sets is kept so."""
_PLAIN_NAMES = re.compile(r"(role [a-z_][a-z0-9_]*)?( in )?(database [a-z_][a-z0-9_]*)?")


def wal_buffers(case: Case) -> Judgement:
    """Offer 16MB of wal_buffers where the load writes and the automatic size is below it."""
    size = case.number("wal_buffers")
    automatic = _is_automatic(case, size)
    if automatic and not case.has("wal_segment_size") and planned(case, "shared_buffers") >= 32 * 16 * MB:
        text = "wal_buffers will be 16MB, or one WAL segment where that is smaller"  # whatever the segment has
        return InOrder(f"{text}.", (Resolution("CON-21", f"Silent: {text}, and 16MB would change nothing."),))
    segment = case.number("wal_segment_size")
    if automatic:
        size = min(max(planned(case, "shared_buffers") / 32, 64 << 10), segment)
    how = "a thirty-second of shared_buffers, one WAL segment at most" if automatic else "set by hand"
    text = f"wal_buffers will be {bytes_text(size)} ({how})"
    wanted = min(16 * MB, segment)
    if size >= wanted:
        return InOrder(f"{text}.", (Resolution("CON-21", f"Silent: {text}, and 16MB would change nothing."),))
    full = _full(case)
    if full is not None and full < FULL_TIMES:
        return InOrder(f"{text}, and it was full {plural(full)} in the window.", of_load=True)
    if not writes(case):
        return InOrder(f"{text}, and the load hardly writes.")
    seen = () if full is None else (f"It was full {full} times in the window, and sessions had to write it out.",)
    return proposes(
        case,
        change_to(case, "wal_buffers", wanted),
        evidence=(f"{text}.", *seen),
        resolutions=(Resolution("CON-21", f"{text}: smaller than 16MB, so 16MB is offered."),),
    )


def plural(count: int) -> str:
    """Return how often, in words."""
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def wal_buffers_side(case: Case) -> Iterator[Resolution]:
    """Decide CON-21 by the size of shared_buffers, from which -1 takes its thirty-second."""
    size = case.number("wal_buffers")
    if _is_automatic(case, size):
        buffers = planned(case, "shared_buffers")
        silent, text = buffers >= 512 * MB, f"wal_buffers is automatic, with shared_buffers = {bytes_text(buffers)}"
    else:
        silent, text = size >= 16 * MB, f"wal_buffers = {bytes_text(size)}, set by hand"
    side = f"Silent: {text}, and 16MB would change nothing." if silent else f"{text}: below 16MB, offered if it fills."
    yield Resolution("CON-21", side)


def _is_automatic(case: Case, size: float) -> bool:
    return case.row("wal_buffers").source in ("default", "override") or size < 0


def _full(case: Case) -> int | None:
    try:
        full = counted(case, "wal_buffers", "shared_buffers").wal_buffers_full
    except Missing:
        return None
    return None if isinstance(full, Unknown) else full


def synchronous_commit(case: Case) -> Judgement:
    """Flag synchronous_commit = off, for the server or for a role or database."""
    where = " on its primary" if case.server.in_recovery is True else ""
    row = case.row("synchronous_commit")
    is_servers = row.setting == "off" and row.source != "global"  # that is ALTER ROLE ALL, told with the others
    back = {"the server": "ALTER SYSTEM SET synchronous_commit = on"} if is_servers else {}
    overrides = case.server.overrides
    for name, given in {} if isinstance(overrides, Unknown) else overrides.items():
        if given.get("synchronous_commit", "").lower() in _OFF:
            back[name] = f"ALTER {_subject(name)} RESET synchronous_commit{where}"
    decided = Resolution(
        "CON-22", "Never recommended: the lists that propose off give no figure, and 2017 measured no gain with it."
    )
    if not back:
        unseen = f"; what roles and databases set is {overrides}" if isinstance(overrides, Unknown) else ""
        return InOrder(f"synchronous_commit = {case.text('synchronous_commit')} for the server{unseen}.", (decided,))
    return Fires(
        current=f"synchronous_commit = off for {', '.join(back)}",
        proposed=f"set by hand: {', '.join(back.values())}",
        values={"for_whom": ", ".join(back)},
        evidence=(f"wal_writer_delay = {shown(case, 'wal_writer_delay')}.",),
        resolutions=(decided,),
        cost=None if "the server" in back else Cost.NONE,  # new sessions of a role have its settings at once
    )


def _subject(override: str) -> str:
    """Return the subject of ALTER for whom an override is of: `role app in database shop`.

    A name that wants quotes is left to the reader: who chose it may have had this very line in mind.
    """
    if override == "all roles":
        return "ROLE ALL"
    if not _PLAIN_NAMES.fullmatch(override):
        return "ROLE or DATABASE ..."
    return override.replace("role ", "ROLE ", 1).replace("database ", "DATABASE ", 1).replace(" in ", " IN ", 1)


def fsync(case: Case) -> Judgement:
    """Flag fsync = off as critical on any server that is not marked disposable."""
    on, method = case.text("fsync") == "on", case.text("wal_sync_method")
    durability = (
        f"Durability comes from fsync = on with wal_sync_method = {method}"
        if on
        else "With fsync = off nothing is durable"
    )
    decided = Resolution("CON-12", f"{durability}: direct I/O alone reaches the cache of the storage only.")
    if on:
        return InOrder("fsync is on.", (decided,))
    return _durability(case, "fsync", "An operating system crash or power failure can corrupt the cluster.", (decided,))


def full_page_writes(case: Case) -> Judgement:
    """Flag full_page_writes = off as critical on any server that is not marked disposable."""
    if case.text("full_page_writes") == "on":
        return InOrder("full_page_writes is on.")
    return _durability(case, "full_page_writes", "A page torn by a crash cannot be repaired.", ())


def _durability(case: Case, name: str, danger: str, resolutions: tuple[Resolution, ...]) -> Fires:
    disposable = case.server.disposable
    kind = "It is a disposable cluster: no result measured here may be quoted for another." if disposable else danger
    return Fires(
        current=f"{name} = off",
        proposed=f"{name} = on, set by hand",
        evidence=(f"This server runs with {name} = off.", kind),
        resolutions=resolutions,
        severity=Severity.NOTE if disposable else Severity.CRITICAL,
    )


LITTLE_IDLE_PCT = 10
"""Below it the processors are as good as full, and what compresses takes its time from the load."""


def wal_compression(case: Case) -> Judgement:
    """Offer compression of full-page images where they make up most of the WAL, as an experiment."""
    if case.text("wal_compression") != "off":
        return InOrder(f"wal_compression = {case.text('wal_compression')}.")
    images = heavy_images(case)
    if not isinstance(images, HeavyImages):
        return images
    return proposes(
        case,
        change_to(case, "wal_compression", "lz4" if "lz4" in case.row("wal_compression").enumvals else "on"),
        evidence=(images.sentence, _idle(case)),
        needs_test=True,
    )


def _idle(case: Case) -> str:
    host = case.evidence.host
    idle = host if isinstance(host, Unknown) else host.idle_pct
    if isinstance(idle, Unknown):
        raise Missing("idle processor time", idle.reason)
    if idle < LITTLE_IDLE_PCT:
        return (
            f"The processors are {idle:.0f} % idle: compression takes its time from the load, and a loss is as likely."
        )
    return f"The processors are {idle:.0f} % idle; compression takes some of that."
