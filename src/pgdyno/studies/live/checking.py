"""What a server must have for a live study, and what is said to whoever asks for one that lacks it. Pure.

Nothing is installed or set by us: pg_stat_statements needs a restart, and statistics are their owner's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Facts
from pgdyno.model.guard import Indicator
from pgdyno.model.live import Colour
from pgdyno.server.role_settings import Override, subject
from pgdyno.units import percent_text

TRACK, MAX, PLANNING = "pg_stat_statements.track", "pg_stat_statements.max", "pg_stat_statements.track_planning"
MOST_OWN = 0.2
"""Our own role's share of sessions, and of the statements' time, from which it is the load's role, too."""
ROOM = 2
"""pg_stat_statements must hold so many times the entries that it has: what is evicted cannot be compared."""


RELOAD, RESTART = "SELECT pg_reload_conf()", "restart the server"
NAME_PRIMARY = "Name its primary in --target."
"""Nothing that is run on a standby would help."""


@dataclass(frozen=True, slots=True)
class LiveAccess:
    """What a session found: the database with the extension (None: none), the role, whether it sees other roles' ids.

    `entries` are those of pg_stat_statements now.
    """

    database: str | None
    role: str
    sees_all: bool
    entries: int = 0


@dataclass(frozen=True, slots=True)
class LiveRefusal:
    """What is missing, as a clause, and what to run: at once, and after the server was restarted where it must be.

    `then` is RELOAD or RESTART where what is run at once needs that to be in force. `see` is one more sentence.
    """

    reason: str
    run: str
    then: str = ""
    after: str = ""
    see: str = ""

    @property
    def remedy(self) -> str:
        """Return what to run against this alone."""
        return remedy_of([self])


def remedy_of(found: Sequence[LiveRefusal]) -> str:
    """Return what to run against all of this, in an order that works, with one restart or reload at most."""
    steps = ["; ".join(dict.fromkeys(one.run for one in found))]
    needed = {one.then for one in found}
    if RESTART in needed:
        steps.append(RESTART)
    elif RELOAD in needed:
        steps = ["; ".join((*steps, RELOAD))]
    steps += dict.fromkeys(one.after for one in found if one.after)
    return ". ".join((", then ".join(steps), *dict.fromkeys(one.see for one in found if one.see)))


def refusals(facts: Facts, access: LiveAccess) -> tuple[LiveRefusal, ...]:
    """Return all that keeps this server from being watched, what must come first at the front."""
    settings = {name: fact.setting for name, fact in facts.settings.items()}
    found = []
    if facts.server.in_recovery:
        return (LiveRefusal("it is a standby, which runs under another server's settings", NAME_PRIMARY),)
    if TRACK not in settings:
        found.append(
            LiveRefusal(
                "pg_stat_statements is not preloaded",
                "add pg_stat_statements to shared_preload_libraries",
                RESTART,
                after="CREATE EXTENSION pg_stat_statements",
            )
        )
    elif access.database is None:
        found.append(
            LiveRefusal(
                "neither the database of --target nor postgres has the extension pg_stat_statements",
                "CREATE EXTENSION pg_stat_statements",
            )
        )
    elif not access.sees_all:
        found.append(
            LiveRefusal(
                f'role "{access.role}" does not see the statements of others',
                f"GRANT pg_monitor TO {sql.Identifier(access.role).as_string(None)}",
                see="pgdyno privileges --for live lists all rights",
            )
        )
    return (*found, *_of_settings(facts.server.major, settings, access.entries))


def _of_settings(major: int, settings: dict[str, str], entries: int) -> list[LiveRefusal]:
    found = []
    track = settings.get(TRACK)
    if track == "none":
        found.append(LiveRefusal(f"{TRACK} is none", f"ALTER SYSTEM SET {TRACK} = 'top'", RELOAD))
    if track == "all" and major < 14:
        reason = f"{TRACK} is all, and PostgreSQL {major} does not show what ran inside functions"
        found.append(LiveRefusal(reason, f"ALTER SYSTEM SET {TRACK} = 'top'", RELOAD))
    if settings.get("compute_query_id") == "off":
        found.append(LiveRefusal("compute_query_id is off", "ALTER SYSTEM SET compute_query_id = 'auto'", RELOAD))
    most = settings.get(MAX)
    if most is not None and int(most) < ROOM * entries:
        found.append(
            LiveRefusal(
                f"{MAX} is {most}, and {entries} statements are tracked already: entries would be given up",
                f"ALTER SYSTEM SET {MAX} = {2 * ROOM * entries}",
                RESTART,
            )
        )
    return found


def require_watchable(label: str, found: Sequence[LiveRefusal]) -> None:
    """Raise EnvironmentUnsuitable that names everything that is missing and what to run; nothing was touched."""
    if not found:
        return
    first, *others = found
    raise EnvironmentUnsuitable(
        f"{label} cannot be watched: {first.reason}",
        detail="; ".join(one.reason for one in others) or None,
        hint=NAME_PRIMARY if first.run == NAME_PRIMARY else f"Run as a superuser: {remedy_of(found)}.",
    )


def require_own_role(role: str, sessions: int, own: int, own_ms: float, others_ms: float) -> None:
    """Raise EnvironmentUnsuitable where our role is the load's, too: its statements could not be told from ours.

    `own` of the `sessions` of others are of our role, which spent `own_ms` beside `others_ms` of the statements' time.
    """
    if own <= MOST_OWN * sessions or own_ms <= MOST_OWN * (own_ms + others_ms):
        return
    raise EnvironmentUnsuitable(
        f'role "{role}", which pgdyno has here, is the load\'s: {own} of {sessions} sessions are its',
        detail="Our own readings are in the statistics, and cannot be told from the load of that role.",
        hint="Give pgdyno a role of its own: CREATE ROLE pgdyno_live LOGIN; GRANT pg_monitor TO pgdyno_live; then name "
        "it in --target. pgdyno privileges --for live lists all rights.",
    )


def surroundings(facts: Facts, overrides: Sequence[Override], indicators: Sequence[Indicator]) -> tuple[str, ...]:
    """Return what a study that changes settings would meet here: what outranks it, standbys, guards that are red.

    Values of other roles' settings may be secrets, and are not told.
    """
    found = []
    subjects: dict[str, list[str]] = {}
    for one in overrides:
        if "." not in one.name:
            subjects.setdefault(subject(one), []).append(one.name)
    if subjects:
        listed = "; ".join(f"{who} sets {', '.join(sorted(names))}" for who, names in subjects.items())
        found.append(f"What outranks every file, and no study could change for those sessions: {listed}.")
    if isinstance(facts.server.standbys, int) and facts.server.standbys > 0:
        found.append(
            f"Standbys follow this server ({facts.server.standbys}): knobs that must not be smaller there than here "
            "are left alone."
        )
    red = [f"{indicator.name}: {indicator.text}" for indicator in indicators if indicator.colour is Colour.RED]
    if red:
        found.append(f"A study that changes settings would not begin now, guards are red: {'; '.join(red)}.")
    return tuple(found)


def counts_plans(facts: Facts) -> bool:
    """Return whether pg_stat_statements counts how often a statement is planned."""
    planning = facts.settings.get(PLANNING)
    return planning is not None and planning.setting == "on"


def watch_notes(facts: Facts, *, is_restarted: bool = False) -> tuple[str, ...]:
    """Return what the counters of this server leave out, whatever its load.

    Where arms come by restarts (`is_restarted`), no plan outlives one.
    """
    found = []
    if not is_restarted and not counts_plans(facts):
        found.append(
            "Planning is not counted (pg_stat_statements.track_planning is off), so that it is unknown which "
            "statements run a cached generic plan, which does not notice a reload."
        )
    if facts.server.major < 14:
        found.append(
            "PostgreSQL 13 does not say when pg_stat_statements was reset or gave up entries: a counter that fell or "
            "an entry that went is all that shows it."
        )
    return tuple(found)


def require_others(own_share: float) -> None:
    """Raise EnvironmentUnsuitable where so much of the statements' time is of our own role that it is the load's."""
    if own_share > MOST_OWN:
        raise EnvironmentUnsuitable(
            f"{percent_text(own_share)} of the statements' time is of the role that pgdyno has here",
            detail="Its own readings are in the statistics, and cannot be told from the load of that role.",
            hint="Give pgdyno a role of its own: CREATE ROLE pgdyno_live LOGIN; GRANT pg_monitor TO pgdyno_live; "
            "then name it in --target. pgdyno privileges --for live lists all rights.",
        )
