"""Judge what shares a file system or a disk with the data files although it should not."""

from __future__ import annotations

from pgdyno.advisor.block_stack import disks_of, places_of
from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind
from pgdyno.model.inventory import Place, Purpose
from pgdyno.units import bytes_text

_NOWHERE = (
    "the backup target is unknown (neither archive_command nor basic_archive, and no readable file of pgBackRest, "
    "Barman or WAL-G on the host, names a folder of it)"
)
_SERVER = (Purpose.DATA, Purpose.WAL, Purpose.TABLESPACE)


def data_on_root(case: Case) -> Judgement:
    """Name the server's places whose mount point is /."""
    if isinstance(container := case.host.virtualization.container, str):
        return DoesNotApply(f"inside a container ({container}) the root file system is not that of the host")
    places = places_of(case, *_SERVER)
    points = [(place, known(place.mount_point, f'the mount point of "{place.path}"')) for place in places]
    if not points:
        return CannotTell("where the data directory lies is unknown (no place of the server was read)")
    on_root = [place for place, point in points if point == "/"]
    if not on_root:
        return InOrder(f"The server's files lie in {', '.join(sorted({point for _, point in points}))}, apart from /.")
    evidence = [f"{_said(place)} {place.path} lies on the file system of /." for place in on_root]
    mount = case.host.mount("/")
    if mount is not None and not isinstance(mount.free_bytes, Unknown):
        evidence.append(f"{bytes_text(mount.free_bytes)} of it are free.")
    return Fires(
        changes=(Change(ChangeKind.MANUAL, value="a file system of its own", current="/"),),
        current=f"{on_root[0].path} on /",
        proposed="a file system on disks of its own",
        evidence=tuple(evidence),
    )


def backup_placement(case: Case) -> Judgement:
    """Compare the disks of the backup target with those of the server and of the system."""
    targets = places_of(case, Purpose.BACKUP)
    if not targets:
        return CannotTell(_NOWHERE)
    protected = {place.path: disks_of(place) for place in places_of(case, *_SERVER)}
    evidence = []
    for target in targets:
        for path, disks in protected.items():
            if shared := disks & disks_of(target):
                evidence.append(f"{_target(target)} shares {', '.join(sorted(shared))} with {path}.")
        if target.mount_point == "/":
            evidence.append(f"{_target(target)} lies on the root file system.")
    if not evidence:
        return InOrder(f"The backup target {_target(targets[0])} shares no disk with the server's files.")
    return Fires(
        changes=(Change(ChangeKind.MANUAL, value="other disks for backups", current=targets[0].path),),
        current=targets[0].path,
        proposed="disks that hold neither data nor the system",
        evidence=tuple(evidence),
    )


def _target(place: Place) -> str:
    """Return the path, with the tool whose configuration names it."""
    return f"{place.path} ({place.name})" if place.name else place.path


def _said(place: Place) -> str:
    return {Purpose.DATA: "The data directory", Purpose.WAL: "The log"}.get(place.purpose, f"Tablespace {place.name}")
