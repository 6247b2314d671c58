"""Judges of the rules on versions: support, parameters that are gone, defaults that moved, what a version adds."""

from __future__ import annotations

from datetime import date

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, Fires, InOrder, Judgement
from pgdyno.advisor.planned import change_to, is_set, shown
from pgdyno.advisor.versions import release_of, removals, versions
from pgdyno.knobs.policy import ruling_of
from pgdyno.knobs.values import setting_text
from pgdyno.model.finding import Severity


def end_of_life(case: Case) -> Judgement:
    """Say so when the community's support of this version has ended, with the gap to the newest."""
    server, table = case.server, versions()
    release = release_of(server.version_num)
    day = table.ends.get(release)
    if day is None and server.major > table.newest:
        return InOrder(f"Version {release} is newer than the table of versions, which is of {table.made}.")
    if day is None:
        if server.version_num <= 0:
            return CannotTell("the server's version is unknown")
        return _ended(case, release, None)
    today = _day(case.inventory.taken_at)
    if day < (today or table.made):
        return _ended(case, release, day)
    if today is None:
        return CannotTell(f"version {release} is supported until {day}, and the date of the inventory is unknown")
    return InOrder(f"Version {release} is supported until {day}.")


def _ended(case: Case, release: str, day: date | None) -> Judgement:
    newest = versions().newest
    when = f"on {day}" if day else "before 2021"
    gap = (
        f"{newest - case.server.major} major versions behind {newest}"
        if case.server.major >= 10
        else f"far behind {newest}"
    )
    evidence = [f"Support of version {release} ended {when}; it is {gap}."]
    if case.server.major < 10:
        evidence.append("Up to 9.6 the WAL lies in pg_xlog, since 10 in pg_wal: scripts that name it must change.")
    return Fires(
        current=f"version {case.server.version or release}",
        proposed=f"version {newest}",
        values={"release": release},
        evidence=tuple(evidence),
    )


def _day(taken_at: str) -> date | None:
    try:
        return date.fromisoformat(taken_at[:10])
    except ValueError:
        return None


def removed_parameters(case: Case) -> Judgement:
    """List parameters that this version does not take any more, and those that the next ones will not take."""
    server = case.server
    given = {name: row for name, row in server.settings.items() if row.source not in ("default", "override")}
    gone, leaving = removals(given, server.major)
    if gone:
        return Fires(
            current=", ".join(one.name for one in gone),
            proposed=", ".join(one.instead or f"without {one.name}" for one in gone),
            values={"state": f"the configuration was made for another version, {_gone(len(gone))}"},
            evidence=tuple(one.sentence() for one in (*gone, *leaving)),
            severity=Severity.WARNING,
        )
    if leaving:
        return Fires(
            current=", ".join(f"{one.name} = {given[one.name].setting}" for one in leaving),
            proposed="change them with the upgrade",
            values={"state": f"{_set(len(leaving))} gone in a later version"},
            evidence=tuple(one.sentence() for one in leaving),
            severity=Severity.NOTE,
        )
    return InOrder("No parameter that is set is gone in any version up to 18.")


def _set(count: int) -> str:
    return "1 that is set is" if count == 1 else f"{count} that are set are"


def _gone(count: int) -> str:
    return "1 of its parameters is gone" if count == 1 else f"{count} of its parameters are gone"


def changed_defaults(case: Case) -> Judgement:
    """Find settings that are pinned to the default of an older version."""
    server = case.server
    pinned = [
        change
        for change in versions().defaults
        if server.major >= change.since
        and case.has(change.name)
        and is_set(case.row(change.name))
        and _same(case.text(change.name), change.before)
    ]
    if not pinned:
        return InOrder("No setting is pinned to a default of an older version.")
    changes = []
    for one in pinned:
        ruling, row = ruling_of(one.name), case.row(one.name)
        if ruling is None or not ruling.settable or one.name in case.earlier:
            continue
        numeric = row.vartype in ("integer", "real")
        changes.append(change_to(case, one.name, setting_text(row, float(one.after)) if numeric else one.after))
    return Fires(
        changes=tuple(changes),
        current=", ".join(f"{one.name} = {shown(case, one.name)}" for one in pinned),
        values={"count": str(len(pinned))},
        evidence=tuple(
            f"{one.name} = {shown(case, one.name)} was the default before {one.since}; since then it is "
            f"{_written(case, one.name, one.after)}."
            for one in pinned
        ),
    )


def _same(text: str, other: str) -> bool:
    try:
        return float(text) == float(other)
    except ValueError:
        return text == other


def _written(case: Case, name: str, text: str) -> str:
    row = case.row(name)
    return setting_text(row, float(text)) if row.vartype in ("integer", "real") else text


def data_checksums(case: Case) -> Judgement:
    """Report data checksums; they are on by default from 18, which matters when versions are compared."""
    on = known(case.server.data_checksums, "whether data checksums are on")
    major = case.server.major
    default = "on" if major >= 18 else "off"
    if on:
        return InOrder(f"Data checksums are on; initdb of version {major} leaves them {default} by default.")
    return Fires(
        current="data checksums off",
        proposed="pg_checksums --enable, while the server is down",
        evidence=(
            f"Data checksums are off; initdb of version {major} leaves them {default}, from 18 on it turns them on.",
            "A comparison with a cluster that has them compares the checksums too: make both alike first.",
        ),
    )


def new_facilities(case: Case) -> Judgement:
    """Name what would show more: timing of I/O, and what later versions add."""
    major = case.server.major
    off = [name for name in ("track_io_timing", "track_wal_io_timing") if case.has(name) and case.text(name) == "off"]
    later = [f"{one.since}: {', '.join(one.names)}" for one in versions().added if one.since > major]
    changed = [f"{one.name} {one.what} (since {one.since})" for one in versions().changed if one.since > major]
    if not off:
        return InOrder("The timing of I/O is tracked." + (f" Later versions add {'; '.join(later)}." if later else ""))
    changes = tuple(change_to(case, name, "on") for name in off if (ruling_of(name) or _NONE).settable)
    return Fires(
        changes=changes,
        current=", ".join(f"{name} = off" for name in off),
        evidence=(
            f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: times of reads and writes are missing.",
            *(f"Version {text}." for text in later),
            *(f"{text}." for text in changed),
        ),
    )


class _Nothing:
    settable = False


_NONE = _Nothing()
