"""What is settled before anything is moved: both servers proved, programs found, room looked at. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError, placed
from pgdyno.knobs.policy import check_settings
from pgdyno.migration.mover import Announcement, MigrationSide, MovePlace, Mover, PhaseStep
from pgdyno.migration.movers.client_program import find_programs
from pgdyno.migration.movers.registry import mover_of
from pgdyno.migration.own_folder import require_own_way, require_reach
from pgdyno.migration.plan import MigrationPlan, all_steps
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.linux import SEEN_AT_START
from pgdyno.outside.files import is_there
from pgdyno.owner.account import Account
from pgdyno.replay.copy_proof import refusal
from pgdyno.replay.target_facts import ALLOWED, identify
from pgdyno.server import places
from pgdyno.server.binaries import embedded_bin_dir
from pgdyno.targets.accounts import load_account
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text


@dataclass(frozen=True, slots=True)
class MigrateOptions:
    """`max_seconds` bounds the whole; it ends when `stop_file` is there. A larger source than `max_bytes` is refused.

    `resume` names the study that goes on.
    """

    path: Path
    jobs: int
    window_s: float | None
    max_seconds: float
    stop_file: Path | None = None
    max_bytes: int | None = None
    resume: str | None = None


RESERVE = 1.1
"""How much more than what was asked for has to be free."""


@dataclass(frozen=True, slots=True)
class PreparedMove:
    """A rehearsal that may begin. `place` has no folder yet."""

    plan: MigrationPlan
    options: MigrateOptions
    mover: Mover
    steps: tuple[PhaseStep, ...]
    place: MovePlace
    announcement: Announcement
    room: tuple[str, ...]
    source_bytes: int
    load: Configuration
    """Settings of the target, or of its host, while it is loaded."""


def prepare(
    source: Target, target: Target, facts: tuple[Facts, Facts], plan: MigrationPlan, options: MigrateOptions
) -> PreparedMove:
    """Return what is to be done. `facts` are of source and target.

    `source` and `target` are the open servers that `plan` moves between; `options` has jobs, bounds and the study to
    resume. Raises UsageError where the target is the source or the plan's settings are none of it,
    EnvironmentUnsuitable where it may not be migrated to, a program is missing, or there is too little room.
    """
    _prove(target, facts, plan, options.path.name)
    load = _load_settings(plan, facts[1], options.path.name)
    mover = mover_of(plan.mover)
    account = load_account(target)
    sides = [
        MigrationSide(one, database, _version(one))
        for one, database in ((source, plan.database), (target, plan.target_database))
    ]
    place = MovePlace(
        source=sides[0],
        target=sides[1],
        folder=Path(plan.folder),
        jobs=options.jobs,
        tag="pgdyno migrate",
        program=_programs(plan, sides[0], sides[1], account),
        account=account,
        options=plan.options,
    )
    require_own_way(Path(plan.folder))
    require_reach(Path(plan.folder), account, writes=False)
    mover.refuse(place)
    for_dump, for_target = mover.bytes_needed(place)
    query = "SELECT pg_catalog.pg_database_size(pg_catalog.current_database()) AS bytes"
    size = int(str(place.source.postgres.fetch(query)[0]["bytes"]))
    if options.max_bytes is not None and size > options.max_bytes:
        raise EnvironmentUnsuitable(
            f'database "{plan.database}" has {bytes_text(size)}, more than --max-size {bytes_text(options.max_bytes)}',
            hint="Give a larger --max-size, or rehearse a smaller copy.",
        )
    needs: dict[str, tuple[Path | None, int]] = {}
    if for_target:
        needs["target"] = (target.directory, for_target)
    if for_dump:
        needs["dump" if mover.fills_target else "clusters"] = (Path(plan.folder), for_dump)
    return PreparedMove(
        plan, options, mover, all_steps(plan, mover.steps(plan.options)), place, mover.announce(place),
        tuple(require_room(needs)), size, load,
    )  # fmt: skip


def _load_settings(plan: MigrationPlan, facts: Facts, file: str) -> Configuration:
    """Return the settings for the load, each looked at by the target and the policy. Errors name its line."""
    for name, value in plan.load.items():
        with placed(f"{file}: line {plan.lines.get(f'load.{name}', 1)}: load"):
            (known,) = check_settings({name: value}, facts)
            row = facts.row(known)
            waits = known in SEEN_AT_START or (row is not None and row.context == "postmaster")
            if waits and not plan.load_restart:
                raise UsageError(
                    f"{known} comes into force by a restart alone",
                    hint="Leave it out, or write load_restart = true in [migration]: the target is restarted then.",
                )
    return check_settings(plan.load, facts)


def _prove(target: Target, facts: tuple[Facts, Facts], plan: MigrationPlan, file: str) -> None:
    """Refuse a target that is the source, or that nobody named as one that may be changed."""
    known = identify(target, facts[1])
    identifier = facts[0].server.system_identifier
    if isinstance(identifier, Unknown):
        raise EnvironmentUnsuitable(
            "the source does not show its system identifier, so nothing proves that the target is another server",
            hint="Connect to it as a role that may execute pg_control_system().",
        )
    if known.system_identifier == identifier and not known.is_marked:
        line = plan.lines.get("target" if plan.target else "source", 1)
        raise UsageError(
            f'{file}: line {line}: migration: target "{target.name}" is the source, or a copy of it without a mark',
            hint="Name another server; a copy is marked by pgdyno replay --mark-copy.",
        )
    found = refusal(known, identifier, str(places.data_dir() / ALLOWED))
    if found is not None:
        raise EnvironmentUnsuitable(f'"{target.name}" cannot be a target of a migration: {found[0]}', hint=found[1])


def _version(target: Target) -> int:
    (row,) = target.postgres.fetch("SELECT pg_catalog.current_setting('server_version_num')::int AS version")
    return int(str(row["version"]))


def _programs(
    plan: MigrationPlan, source: MigrationSide, target: MigrationSide, account: Account | None
) -> Callable[[str], str]:
    """Return what finds a program, of the plan's folder alone where it names one."""
    if plan.programs:
        folders = [Path(plan.programs)]
    else:
        folders = [
            folder
            for one in (target.target, source.target)
            for folder in (one.bin_dir, one.client_bin_dir)
            if folder is not None
        ] + [embedded_bin_dir()]
    found = find_programs(folders, source.major, target.major, account, only=bool(plan.programs))
    return found.path


def require_room(needs: dict[str, tuple[Path | None, int]]) -> list[str]:
    """Return what is free where, in words; needs on one file system are added.

    Raises EnvironmentUnsuitable where there is too little. Of a place that is None, on another host, nobody knows.
    """
    lines, by_device = list[str](), dict[int, tuple[list[str], int, int]]()
    for what, (place, bytes_needed) in needs.items():
        if place is None:
            lines.append(f"{what}: {bytes_text(bytes_needed)} needed; what is free there cannot be seen from here")
            continue
        try:
            there = next(one for one in (place, *place.parents) if is_there(one))
            found, device = os.statvfs(there), there.stat().st_dev
        except (OSError, UsageError) as error:
            why = error.strerror if isinstance(error, OSError) else error.detail
            raise EnvironmentUnsuitable(
                f'what is free for the {what} in "{place}" cannot be seen: {why}',
                hint="Name another folder in the plan, or run pgdyno as an account that may look there.",
            ) from error
        names, needed, _ = by_device.get(device, ([], 0, 0))
        by_device[device] = ([*names, f"{what} in {there}"], needed + bytes_needed, found.f_bavail * found.f_frsize)
    for names, needed, free in by_device.values():
        told = f"{' and '.join(names)}: about {bytes_text(needed)} needed, {bytes_text(free)} free"
        if free < RESERVE * needed:
            raise EnvironmentUnsuitable(f"there is not enough space: {told}", hint="Name another folder in the plan.")
        lines.append(told)
    return lines
