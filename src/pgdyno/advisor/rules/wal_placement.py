"""Judge whether data files and write-ahead log lie on different disks, and write down how the log is moved."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from pgdyno.advisor.block_stack import disks_of, mounted_disks, place_of, places_of
from pgdyno.advisor.case import Case, Missing
from pgdyno.advisor.judgement import DoesNotApply, Fires, InOrder, Judgement
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution, Severity
from pgdyno.model.inventory import Place, Purpose
from pgdyno.units import bytes_rate_text, rate_text

MANY_COMMITS_S = 1000
FEW_COMMITS_S = 10
"""Order of magnitude only: where commits are rare nothing waits for the log, where they are many everything does."""
MANY_DISKS = 8
"""From so many shared disks on the case is the sources' large environment, where the effect was close to nothing."""
_NEW_PLACE = "/pg_wal_disk/pg_wal"


def wal_placement(case: Case) -> Judgement:
    """Compare the disks below the data directory with those below pg_wal."""
    data, wal = place_of(case, Purpose.DATA), place_of(case, Purpose.WAL)
    mount = case.host.mount(data.mount_point) if isinstance(data.mount_point, str) else None
    if mount is not None and mount.filesystem in ("tmpfs", "ramfs"):
        return DoesNotApply(f"the data files lie in memory ({mount.filesystem} at {mount.point})")
    one_mount = isinstance(data.mount_point, str) and data.mount_point == wal.mount_point
    try:
        disks, log_disks = disks_of(data), disks_of(wal)
    except Missing:
        if not one_mount:
            raise
        disks = log_disks = frozenset()
    beside = [place for place in places_of(case, Purpose.TABLESPACE) if disks_of(place) & log_disks]
    shared = frozenset().union(disks, *(disks_of(place) for place in beside)) & log_disks
    if not shared and not one_mount:
        return InOrder(
            f"The data files lie on {_list(disks)} and the log on {_list(log_disks)}. Whether a storage server keeps "
            "these on different disks cannot be seen from the host: `pgdyno disks` checks its topology.",
            (_resolution("The disks differ already", case),),
        )
    many = len(shared) >= MANY_DISKS
    what = "one file system" if one_mount else f"the disks {_list(shared)}"
    return Fires(
        changes=(move_of(case, data, wal),),
        current=f"pg_wal in {wal.path}",
        proposed="pg_wal on disks that hold no data files",
        evidence=tuple(_evidence(case, data, wal, shared, beside)),
        doubts=(f"{len(shared)} disks are shared: over so many the sources saw close to no effect",) if many else (),
        alternatives=(
            "For a new cluster: initdb --waldir=" + _NEW_PLACE + " -D " + shlex.quote(data.path),
            "Preference: another storage server, then another extent pool or rank, then another disk.",
        ),
        resolutions=(_resolution(f"Both lie on {what}", case),),
        severity=_weight(case),
    )


def move_commands(data_directory: str, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that move pg_wal to a folder that does not exist yet, and those that move it back.

    Run as the server's user. `readlink` makes them right for a directory and for a link to one alike; the place it was
    at is kept in a file beside the new one, for the way back, and written before the server is stopped.
    """
    data, new, was = shlex.quote(data_directory), shlex.quote(target), shlex.quote(f"{target}.was")
    link = shlex.quote(f"{data_directory}/pg_wal")
    stop, start = f"pg_ctl stop -w -D {data} -m fast", f"pg_ctl start -w -D {data} -l {data}/startup.log"
    relink = f'test -e {link} || ln -s "$(cat {was})" {link}'
    ready = f"test -w {shlex.quote(str(PurePosixPath(target).parent))} -a ! -e {new}"
    there = (ready, f"readlink -f {link} > {was}", stop, f'mv "$(cat {was})" {new}', f"ln -sfn {new} {link}", start)
    return there, (stop, f"rm {link}", f'mv {new} "$(cat {was})"', relink, f"rm {was}", start)


def move_of(case: Case, data: Place, wal: Place) -> Change:
    """Return the move as a change for people: only they know how the server is stopped here and what the disks are.

    Where pg_wal is a mount point itself, it cannot be moved.
    """
    if wal.mount_point == wal.path:
        return Change(ChangeKind.MANUAL, value=f"mount a file system of other disks at {wal.path}", current=wal.path)
    target = _target(case, data, wal)
    there, back = move_commands(data.path, target)
    return Change(ChangeKind.MANUAL, value=target, current=wal.path, commands=there, undo=back)


def _target(case: Case, data: Place, wal: Place) -> str:
    """Return a folder on the largest mounted file system that shares no disk with the data, else a made-up place."""
    if isinstance(case.host.mounts, Unknown) or isinstance(data.disks, Unknown):
        return _NEW_PLACE
    backup = {place.mount_point for place in _places(case) if place.purpose is Purpose.BACKUP}
    fitting = [
        mount
        for mount in case.host.mounts
        if (disks := mounted_disks(case.host, mount))
        and not disks & data.disks
        and mount.point not in ("/", "/boot", "/boot/efi", wal.mount_point, *backup)
        and not isinstance(mount.free_bytes, Unknown)
        and mount.free_bytes > 2 * case.number("max_wal_size")
    ]
    if not fitting:
        return _NEW_PLACE
    best = max(fitting, key=lambda mount: mount.free_bytes if isinstance(mount.free_bytes, int) else 0)
    return f"{best.point.rstrip('/')}/pg_wal"


def _places(case: Case) -> tuple[Place, ...]:
    return () if isinstance(case.host.places, Unknown) else case.host.places


def _evidence(case: Case, data: Place, wal: Place, shared: frozenset[str], beside: list[Place]) -> list[str]:
    names = ", ".join(f"tablespace {place.name or place.path}" for place in beside)
    apart = not isinstance(data.disks, Unknown) and shared and not data.disks & shared
    who = names if apart else f"The data directory {data.path}" + (f", {names}" if names else "")
    found = [f"{who[:1].upper()}{who[1:]} and the log {wal.path} lie on {_list(shared) or data.mount_point}."]
    if not apart and isinstance(data.mount_point, str) and data.mount_point != wal.mount_point:
        found.append(f"Their mount points {data.mount_point} and {wal.mount_point} differ, their disks do not.")
    commits, is_mean = _commits(case)
    found.append(
        "The commit rate is unknown; the more commits, the more this matters."
        if commits is None
        else f"The server commits {_rate_words(commits, is_mean=is_mean)}; each commit that wrote waits for the log."
    )
    rate = case.evidence.wal_rate_bytes_s
    if not isinstance(rate, Unknown):
        found.append(f"It writes {bytes_rate_text(rate)} of log a second.")
    return found


def _commits(case: Case) -> tuple[float | None, bool]:
    """Return commits a second, and whether that is a mean with idle times in it: at load there are more then."""
    statistics = case.evidence.statistics
    if isinstance(statistics, Unknown) or isinstance(statistics.commits_s, Unknown):
        return None, False
    return statistics.commits_s, statistics.window.is_mean_of_all


def _rate_words(commits: float, *, is_mean: bool) -> str:
    times = f"{rate_text(commits)} times a second"
    return f"{times} on average since the statistics were reset, idle times included" if is_mean else times


def _weight(case: Case) -> Severity | None:
    """More commits, more weight; a load that does not write leaves the log alone.

    A mean with idle times in it says only that at load there are more.
    """
    (commits, is_mean), statistics = _commits(case), case.evidence.statistics
    if commits is None:
        return None
    writes = 1.0
    if not isinstance(statistics, Unknown) and not isinstance(statistics.write_share, Unknown):
        writes = statistics.write_share
    if writes == 0:
        return Severity.NOTE
    if commits >= MANY_COMMITS_S:
        return Severity.WARNING
    if is_mean:
        return None
    return Severity.NOTE if commits < FEW_COMMITS_S else Severity.ADVICE


def _resolution(condition: str, case: Case) -> Resolution:
    commits, is_mean = _commits(case)
    rate = f"{'an unknown number of' if commits is None else rate_text(commits)} commits a second"
    rate += " on average, idle times included" if is_mean else ""
    return Resolution(
        "CON-24",
        f"{condition}, with {rate}: separate disks are a rule of structure, worth 0 to 10 %.",
    )


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
