"""What would keep the server from the planned settings: its start, its WAL's volume, files, standbys, roles. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.model.facts import Obstacle, Unknown
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_server import ServerReading
from pgdyno.preflight.reading_start import StartReading
from pgdyno.preflight.result import Result, not_applicable, noted, passed, refused
from pgdyno.routes.file_check import FileReading
from pgdyno.server.effectiveness import same_value
from pgdyno.server.role_settings import Override, reset, statement
from pgdyno.targets.overrides import is_of
from pgdyno.units import bytes_text, parse_quantity, plural

_START_HINT = "Change or leave out what the server names; pgdyno knobs show NAME gives its range."


def start(plan: StartPlan, reading: StartReading) -> Result:
    """Judge what `postgres -C` said, and the combinations that 13 and 14 would only refuse at start."""
    if not plan.restart:
        return not_applicable("start", "a reload is enough")
    broken = combinations(plan)
    if broken is not None:
        return refused("start", f"the server would not start: {broken}", hint=_START_HINT)
    if isinstance(reading.complaints, Unknown):
        return not_applicable("start", reading.complaints.reason)
    if not reading.complaints:
        return passed("start", "the server program accepts the configuration")
    words = "; ".join(reading.complaints)
    if reading.known:
        return noted("start", f"the server program says this of the values in force too: {words}")
    return refused("start", f"the server would not start: {words}", hint=_START_HINT)


def combinations(plan: StartPlan) -> str | None:
    """Return the combination of settings that keeps a server from starting (postmaster.c), or None."""
    reserved = (plan.number("superuser_reserved_connections") or 0) + (plan.number("reserved_connections") or 0)
    most = plan.number("max_connections")
    if most is not None and reserved >= most:
        return f"{reserved:.0f} reserved connections must be less than {plan.figure('max_connections')}"
    if plan.text("wal_level") != "minimal":
        return None
    if plan.text("archive_mode") not in ("off", None):
        return f"archive_mode = {plan.text('archive_mode')} needs wal_level = replica or logical"
    if (plan.number("max_wal_senders") or 0) > 0:
        return f"{plan.figure('max_wal_senders')} needs wal_level = replica or logical"
    return None


_WAL_KNOBS = ("max_wal_size", "min_wal_size", "wal_keep_size")
_OVERRUN = 1.1
"""max_wal_size is a soft limit: a checkpoint that is under way lets the WAL go beyond it; a tenth is assumed."""
_MARGIN_BYTES = 1 << 30


def wal_disk(plan: StartPlan, wal_bytes: int | Unknown, free_bytes: int | Unknown) -> Result:
    """Compare how far pg_wal may grow (max_wal_size and a tenth, wal_keep_size) with the free space of its volume.

    Refuses when it cannot fit; a note when less than 1 GB would be left. Only where the configuration sets one of
    the three. Archiving that fails and replication slots can keep more than this: guards watch for that.
    """
    check = "WAL volume"
    asked = [name for name in _WAL_KNOBS if name in plan.asked]
    if not asked:
        return not_applicable(check, f"the configuration sets none of {', '.join(_WAL_KNOBS)}")
    if isinstance(wal_bytes, Unknown) or isinstance(free_bytes, Unknown):
        reason = wal_bytes.reason if isinstance(wal_bytes, Unknown) else str(free_bytes)
        return not_applicable(check, reason)
    sizes = {name: plan.size(name) or 0 for name in _WAL_KNOBS}
    most = int(max(sizes["max_wal_size"] * _OVERRUN, sizes["min_wal_size"])) + sizes["wal_keep_size"]
    growth = max(most - wal_bytes, 0)
    figures = {"asked": bytes_text(growth), "there": bytes_text(free_bytes)}
    words = ", ".join(plan.figure(name) for name in asked)
    sentence = (
        f"{words}: the WAL may grow by {figures['asked']} to {bytes_text(most)}, "
        f"and its volume has {figures['there']} free"
    )
    hint = "Choose a smaller max_wal_size, or free space on the volume of pg_wal."
    if growth > free_bytes:
        return refused(check, sentence, **figures, hint=hint)
    if growth + _MARGIN_BYTES > free_bytes:
        return noted(check, sentence, **figures, hint=hint)
    return passed(check, sentence, **figures)


_FILES = "files"


def would_be_overridden(
    names: Iterable[str],
    reading: FileReading,
    obstacles: Mapping[str, Obstacle],
    by_alter_system: frozenset[str] = frozenset(),
) -> Result:
    """Refuse knobs that something in files or on the command line outranks (`overrides.Reach.in_server`).

    `names` are the knobs of the configuration, `obstacles` what outranks a knob, by its name; lines of `reading` that
    the server rejects are refused first. Role and database settings are judged by `overrides`. `by_alter_system` are
    the knobs that would be set by ALTER SYSTEM, as postgresql.auto.conf has them.
    """
    broken = [f"{line.place}: {line.error}" for line in reading.rejected()]
    if broken:
        words = f"the files cannot be read as they are: {'; '.join(broken)}"
        return refused(_FILES, words, there=plural(len(broken), "line"), hint="Fix those lines first.")
    names = list(names)
    asked = "1 knob" if len(names) == 1 else f"{len(names)} knobs"
    found = {name: obstacles[name] for name in names if name in obstacles}
    if found:
        words = "; ".join(f"{name} {obstacle.reason}" for name, obstacle in found.items())
        hint = " ".join(dict.fromkeys(obstacle.remedy for obstacle in found.values()))
        return refused(_FILES, words, asked=asked, there="overridden", hint=f"{hint} Or leave these knobs out.")
    words = "nothing in the files overrides the configuration"
    if moved := [name for name in names if name in by_alter_system]:
        words += f"; ALTER SYSTEM sets {', '.join(moved)}, as postgresql.auto.conf sets them now"
    return passed(_FILES, words, asked=asked)


def standbys(plan: StartPlan, server: ServerReading, ordered: Collection[str]) -> Result:
    """Refuse every change of a standby-ordered knob while a physical standby is attached, or on a standby itself.

    A standby must have at least the primary's values (PostgreSQL documentation, 26.4), and which of the two is
    changed first depends on the direction: that is a person's work. A value that goes back to what the files say is
    a note: the way back must stay open.
    """
    check = "standbys"
    changed = sorted(name for name in ordered if plan.changes(name))
    if not server.standbys and not server.in_recovery:
        return not_applicable(check, "no physical standby is attached")
    there = ", ".join(server.standbys) or "this server is one"
    if not changed:
        return passed(check, "no standby-ordered knob changes", there=there)
    asked = ", ".join(f"{plan.now[name].setting} to {plan.figure(name)}" for name in changed)
    words = f"{', '.join(changed)} cannot be changed while a physical standby is attached ({there})"
    if not any(name in plan.asked for name in changed):
        sentence = f"{', '.join(changed)} go back to what the files say, with a standby attached"
        return noted(check, sentence, asked=asked, there=there)
    hint = "Leave these knobs out, or change them on the standbys and the primary by hand, in the documented order."
    return refused(check, words, asked=asked, there=there, hint=hint)


_ROLES = "roles and databases"


def overrides(plan: StartPlan, server: ServerReading, databases: Collection[str]) -> Result:
    """Refuse a knob that is set for our role, in our database or the load's: what is in force would not be ours.

    That holds for an equal value too: a session that reads the value back finds that it comes from elsewhere. A knob
    that is set otherwise for other roles or databases is a note: what is measured does not hold for their sessions.
    """
    asked = [override for override in server.overrides if override.name in plan.asked]
    own = {server.database, *databases}
    if ours := [override for override in asked if is_of(override, server.role, own)]:
        words = "; ".join(f"{plan.figure(o.name)} is overridden by {statement(o)}" for o in ours)
        hint = f"Remove it with {reset(ours[0])}, or leave this knob out."
        return refused(_ROLES, words, asked=_names(ours), there=statement(ours[0]), hint=hint)
    if found := [override for override in asked if _differs(plan, override)]:
        words = "; ".join(statement(override) for override in found)
        return noted(_ROLES, f"not for sessions of {words}", asked=_names(found), there=plural(len(found), "setting"))
    return passed(_ROLES, "no role or database overrides the configuration")


def _differs(plan: StartPlan, override: Override) -> bool:
    """Tell whether the override is of another value than the one asked for."""
    state = plan.now.get(override.name)
    if state is None:
        return False
    return not same_value(plan.asked[override.name], replace(state, setting=_bare(override.value, state.unit)))


def _bare(text: str, unit: str | None) -> str:
    """Return a value in base units, as `pg_settings` shows it; text that is no quantity as it is."""
    try:
        return f"{parse_quantity(text, unit):.12g}"
    except UsageError:
        return text


def _names(found: list[Override]) -> str:
    return ", ".join(sorted({override.name for override in found}))
