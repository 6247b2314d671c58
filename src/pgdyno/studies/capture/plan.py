"""What a capture would do on this server, what it would cost, and what is in the way. Reads only."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.guard import GuardPlan
from pgdyno.probes.evidence.log_reader import is_english
from pgdyno.server.privileges import missing, privileges, read_role, script
from pgdyno.server.role_settings import Override, read_overrides, statement
from pgdyno.studies.capture.log_folder import LogFolder, look_at_disk
from pgdyno.studies.capture.source import read_rate
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trace.capture_cost import CaptureCost, cost_of
from pgdyno.trace.capture_logging import EXTENSIONS, JSONLOG_SINCE, is_hole, logging_for, prefix_of, to_change
from pgdyno.undo.opening import Opening
from pgdyno.undo.watch import Deadlines
from pgdyno.units import bytes_text, seconds_text

RATE_S = 2.0
"""How long the load is watched for the estimate of what it costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """How long and how much at most; `sampled` is a share of the transactions, None for all."""

    seconds: float
    max_bytes: int
    style: str = "csvlog"
    sampled: float | None = None
    commit_order: bool = False
    guards: GuardPlan = field(default_factory=lambda: GuardPlan(trips=1))
    watch: Deadlines = field(default_factory=Deadlines)


@dataclass(frozen=True, slots=True)
class CaptureRefusal:
    """Why a capture cannot be, and what to type."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """What `start` would do. `change` is set by the session, `wanted` is all that a capture relies on."""

    id: str
    options: CaptureOptions
    facts: Facts
    wanted: dict[str, str]
    change: Configuration
    cost: CaptureCost
    folder: LogFolder
    free: int | None
    """Free bytes of the log's file system, None where they cannot be seen from here."""
    refusals: tuple[CaptureRefusal, ...]
    holes: tuple[str, ...]
    warnings: tuple[str, ...]

    def before(self, name: str) -> str:
        """Return the value as it was found."""
        row = self.facts.settings.get(name)
        return "unknown" if row is None else row.setting or "(empty)"

    def require(self) -> None:
        """Raise EnvironmentUnsuitable where something is in the way, with all of it."""
        if not self.refusals:
            return
        first, *rest = self.refusals
        raise EnvironmentUnsuitable(
            f"the load cannot be captured: {first.reason}",
            detail="\n".join(f"{one.reason}: {one.remedy}" for one in rest) or None,
            hint=f"Nothing was changed. {first.remedy}",
        )


def capture_id(at: float) -> str:
    """Return a new id: the moment in UTC, and letters by lot."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(at))}-capture-{secrets.token_hex(2)}"


def plan_capture(
    target: Target, options: CaptureOptions, *, rate_s: float = RATE_S, sleep: Callable[[float], None] = time.sleep
) -> CapturePlan:
    """Look at the server, at its load for `rate_s` seconds, and at what is in the way. Changes nothing.

    `options` are what the capture of `target` is asked to do; `sleep` is given the seconds to wait. Raises ConnectError
    without a session, and EnvironmentUnsuitable where the settings of its log cannot be seen.
    """
    facts, name = read_facts(target), capture_id(time.time())
    found = {row.name: row.setting for row in facts.settings.values()}
    folder = LogFolder.of(target, facts)
    wanted = logging_for(
        name, options.style, found, facts.server.version_num, max_bytes=options.max_bytes, sampled=options.sampled
    )
    change = Configuration.of(to_change(wanted, found))
    cost = cost_of(read_rate(target.postgres, rate_s, sleep), options.style, options.sampled)
    free, overrides = folder.free_bytes(), read_overrides(target.postgres)[2]
    return CapturePlan(
        id=name,
        options=options,
        facts=facts,
        wanted=wanted,
        change=change,
        cost=cost,
        folder=folder,
        free=free,
        refusals=tuple(_refusals(target, facts, options, change, folder)),
        holes=holes_of(overrides, wanted),
        warnings=tuple(_warnings(facts, options, cost, folder, prefix_of(name))),
    )


def holes_of(overrides: Sequence[Override], wanted: dict[str, str]) -> tuple[str, ...]:
    """Return a sentence for each setting of a role or a database that keeps something out of the log."""
    found = [one for one in overrides if is_hole(one.name, one.value, wanted) or _is_foreign(one.name, one.value)]
    return tuple(f"{statement(one)}: its sessions are not logged as the capture asks" for one in found)


def _is_foreign(name: str, value: str) -> bool:
    return name == "lc_messages" and not is_english(value)


def _refusals(
    target: Target, facts: Facts, options: CaptureOptions, change: Configuration, folder: LogFolder
) -> list[CaptureRefusal]:
    found = [*_of_rights(target), *server_refusals(target.bin_dir, facts, options)]
    for name in change:
        if name in facts.obstacles:
            obstacle = facts.obstacles[name]
            found.append(CaptureRefusal(f"{name} cannot be set: it {obstacle.reason}", obstacle.remedy))
    if not found:
        found += _attempted(lambda: folder.files(options.style, options.style), "Let the server's log be read.")
        found += _attempted(lambda: look_at_disk(folder.free(), options.guards), "Make room, or set --guard log-disk.")
    if not found and target.remote is None:
        found += _attempted(lambda: Opening.refuse_unfit(target, restart=False), "Run pgdyno capture check again.")
    return found


def _of_rights(target: Target) -> list[CaptureRefusal]:
    lacking = missing(privileges("capture", read_role(target.postgres)))
    if not lacking:
        return []
    names = ", ".join(one.name for one in lacking)
    return [CaptureRefusal(f"the role lacks {names}", f"As a superuser: {script(lacking)}")]


def server_refusals(bin_dir: Path, facts: Facts, options: CaptureOptions) -> list[CaptureRefusal]:
    """Return what of the server's version and settings forbids a capture. Pure."""
    found, version = list[CaptureRefusal](), facts.server.version_num
    if options.style == "jsonlog" and version < JSONLOG_SINCE:
        found.append(CaptureRefusal(f"PostgreSQL {facts.server.major} has no jsonlog", "Leave out --style jsonlog."))
    if options.commit_order:
        found += _of_slot(facts)
    language = facts.settings.get("lc_messages")
    if language is not None and _is_foreign(language.name, language.setting):
        found.append(
            CaptureRefusal(
                f"lc_messages is {language.setting}: no trace can be built of a log that is not in English",
                "ALTER SYSTEM SET lc_messages = 'C', and reload; clients get their messages in English then, too. "
                "Set it back afterwards.",
            )
        )
    collector = facts.settings.get("logging_collector")
    if collector is None or collector.setting != "on":
        program, data = bin_dir / "postgres", facts.server.data_directory
        proof = f"{program} -D {data} -c logging_collector=on -C logging_collector"
        found.append(
            CaptureRefusal(
                f"logging_collector is off: {options.style} is written by the collector, and only a restart starts it",
                f"See that the server takes it, as its owner: {proof}; then ALTER SYSTEM SET logging_collector = on, "
                "and restart the server when its users allow it.",
            )
        )
    return found


def _of_slot(facts: Facts) -> list[CaptureRefusal]:
    """Return why there could be no logical slot; rights and the plugin are seen when it is made."""
    level, without = facts.settings.get("wal_level"), "Capture without --commit-order."
    if facts.server.in_recovery:
        return [CaptureRefusal("a standby commits nothing of its own", without)]
    if level is None or level.setting != "logical":
        now = "unknown" if level is None else level.setting
        return [
            CaptureRefusal(
                f"--commit-order needs wal_level = logical, it is {now}, and only a restart changes it",
                f"{without} Or ALTER SYSTEM SET wal_level = logical and restart: more WAL from then on.",
            )
        ]
    return []


def _attempted(look: Callable[[], object], otherwise: str) -> list[CaptureRefusal]:
    try:
        look()
    except PgdynoError as error:
        return [CaptureRefusal(error.one_line, error.hint or otherwise)]
    return []


def _warnings(facts: Facts, options: CaptureOptions, cost: CaptureCost, folder: LogFolder, prefix: str) -> list[str]:
    rows = facts.settings
    destination = rows["log_destination"].setting if "log_destination" in rows else "unknown"
    found = [
        "statements are logged with the values that users bind and type; the files are readable by the server's "
        "account alone, and stay in its log folder until you delete them"
    ]
    if destination.replace(" ", "") != options.style:
        found.append(
            f"the server logs to {destination} now; meanwhile all of it, errors too, goes to "
            f"{prefix}*{EXTENSIONS[options.style]} alone: whatever reads its usual log sees nothing new"
        )
    if options.sampled is not None:
        found.append(
            f"{100 * options.sampled:g} % of the transactions are logged: for response times, not for a replay that "
            "keeps the data's state"
        )
    elif "log_statement" in rows and rows["log_statement"].setting == "all":
        found.append("log_statement = all writes each statement at its begin, too: about a third more bytes")
    if options.commit_order:
        found.append(
            "--commit-order sees the database of --target alone; its slot holds back WAL, which guard slots bounds"
        )
    if not folder.is_watched:
        found.append("the log's disk cannot be seen from here and is NOT WATCHED: --max-size is what bounds it")
    expected, free = cost.bytes_per_s * options.seconds, folder.free_bytes()
    if expected > options.max_bytes:
        filled = cost.seconds_to_fill(options.max_bytes) or 0.0
        found.append(f"at the current rate --max-size {bytes_text(options.max_bytes)} is reached in "
                     f"{seconds_text(filled)}, before --for {seconds_text(options.seconds)}")  # fmt: skip
    if free is not None and min(expected, options.max_bytes) > free:
        found.append(f"the log's file system has {bytes_text(free)} free, less than the capture may need: a guard ends "
                     "it before the disk is full")  # fmt: skip
    return found
