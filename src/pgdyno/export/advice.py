"""What all exports begin with: the changes that may be written, those that may not and why, and the head comment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.advisor.selection import is_waiting
from pgdyno.errors import UsageError
from pgdyno.export.quoting import alter_system_reset, alter_system_set
from pgdyno.knobs.policy import Durability, class_x_set_in, ruling_of
from pgdyno.knobs.values import canonical_text
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.finding import OF_STUDY, Answer, Change, ChangeKind, Finding, ProofState
from pgdyno.model.inventory import Inventory
from pgdyno.units import bytes_text

AUTO_CONF = "postgresql.auto.conf"
_NAME = re.compile(r"[A-Za-z_][\w$/-]*(?:[./][A-Za-z0-9_][\w$/-]*)*")
_DEVICE = re.compile(r"[\w./:+@-]*")
SCHEDULE = "schedule"
"""The knob of a command that is to be run again and again; its value is a calendar event of systemd.time(7)."""
_TIMER = re.compile(r"--on-calendar='(?P<event>[^']+)'.*?(?P<command>\bvacuumdb(?: --?[\w=-]+)*)")
_NAMED = (ChangeKind.POSTGRESQL, ChangeKind.LINUX, ChangeKind.BLOCK)


@dataclass(frozen=True, slots=True)
class ExportedChange:
    """One change to be written, and the finding that it comes from. One that `is_kept` is in force already."""

    change: Change
    rule: str
    title: str
    state: ProofState = ProofState.PROPOSED
    is_waiting: bool = False
    is_kept: bool = False

    @property
    def mark(self) -> str:
        """Return in words that the change is to be measured before it is kept; empty where it is not."""
        if self.is_waiting:
            return "for a load, and none was seen here: measure it under yours before it is kept"
        return "needs-test: measure it here before it is kept" if self.state is ProofState.NEEDS_TEST else ""

    @property
    def line(self) -> str:
        """Return rule, change, reason and mark in one line."""
        change, mark = self.change, f" [{self.mark}]" if self.mark else ""
        if not change.knob:
            return f"{self.rule}: {self.title}{mark}"
        name = f"{change.knob} of {change.device}" if change.device else change.knob
        if change.device.startswith("/sys/"):  # a file has one name; the knob's is that of a sysctl elsewhere
            name = change.device
        if self.is_kept:
            return f"{self.rule}: {name} = {change.value}, which is in force already. {self.title}{mark}"
        return f"{self.rule}: {name} {change.was} -> {change.value}. {self.title}{mark}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A change that is not written, and why."""

    item: ExportedChange
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """A parameter of PostgreSQL as it was found. `text` None is unknown.

    `in_auto_conf` None means that this role is not shown in which file it stands.
    """

    text: str | None
    is_default: bool
    in_auto_conf: bool | None
    overridden_by: str | None = None

    @property
    def line(self) -> str | None:
        """Return the value that a file before postgresql.auto.conf had; None for no line of it there."""
        return None if self.is_default or self.in_auto_conf else self.text

    def outranked(self, name: str) -> list[str]:
        """Return what outranks a file's line of this parameter, as a sentence; none where nothing does."""
        if self.overridden_by is not None:
            return [f"{name} comes from {self.overridden_by}, which outranks this file."]
        taken_away = f"{alter_system_reset(name)} takes that away."
        return [f"{name} is set by ALTER SYSTEM, which outranks this file: {taken_away}"] if self.in_auto_conf else []

    def set_again(self, name: str) -> list[str]:
        """Return how it comes back into postgresql.auto.conf, as a sentence; none where it was not there."""
        if not self.in_auto_conf or self.text is None:
            return []
        return [f"{name} was set by ALTER SYSTEM: {alter_system_set(name, self.text)} sets it again."]


@dataclass(frozen=True, slots=True)
class ExportedAdvice:
    """The changes of the chosen findings, each knob once, on one target."""

    items: tuple[ExportedChange, ...]
    left_out: tuple[LeftOut, ...]
    inventory: Inventory
    date: str

    def of(self, *kinds: ChangeKind) -> list[ExportedChange]:
        """Return the changes of these kinds in the order of the findings."""
        return [item for item in self.items if item.change.kind in kinds]

    def head(
        self,
        what: str,
        kinds: Sequence[ChangeKind],
        *,
        mark: str = "#",
        about: Callable[[Change], bool] = lambda _: True,
    ) -> str:
        """Return the head comment: what it is, for which target, when, why, and what was left out.

        `what` names the file. Changes of these `kinds` are listed, written or left out, where `about` says that the
        file is about them. Each line begins with `mark`, the sign of a comment in its language.
        """
        lines = [
            f"pgdyno advice: {what}",
            f"target: {_server_text(self.inventory)}",
            f"environment: {_host_text(self.inventory)}",
            f"date: {self.date or 'unknown'}",
            *(item.line for item in self.of(*kinds) if about(item.change)),
            *(
                f"left out: {out.item.rule}: {_name(out.item.change)}: {out.reason}"
                for out in self.left_out
                if out.item.change.kind in kinds and about(out.item.change)
            ),
        ]
        return comment(lines, mark)

    def marks(self, name: str, mark: str = "#") -> str:
        """Return the comment that stands above the line of a knob that is to be measured first; else nothing."""
        found = next((item.mark for item in self.items if item.change.knob.replace("/", ".") == name), "")
        return comment([f"{name}: {found}"], mark) if found else ""

    @property
    def settings(self) -> Mapping[str, SettingFact]:
        """Return the parameters of the server; none where they are not known."""
        return {} if isinstance(self.inventory.server, Unknown) else self.inventory.server.settings

    @property
    def late(self) -> list[str]:
        """Return the changed parameters that are in force only after a restart."""
        names = [item.change.knob for item in self.of(ChangeKind.POSTGRESQL)]
        return [name for name in names if name in self.settings and self.settings[name].context == "postmaster"]

    def restarts(self) -> list[str]:
        """Return one sentence on the parameters that are in force only after a restart; none when there are none."""
        return [f"In force after a restart: {', '.join(self.late)}"] if self.late else []

    def found(self, name: str) -> Found:
        """Return a parameter of PostgreSQL as it was found; what was there before a kept one is not known here."""
        if any(item.is_kept and item.change.knob == name for item in self.of(ChangeKind.POSTGRESQL)):
            return Found(None, is_default=False, in_auto_conf=None)
        fact = self.settings.get(name)
        if fact is None:
            current = next((i.change.current for i in self.of(ChangeKind.POSTGRESQL) if i.change.knob == name), None)
            return Found(current, is_default=False, in_auto_conf=None)
        overriding = fact.source not in ("default", "configuration file", "override")
        return Found(
            text=_text_of(fact),
            is_default=fact.source == "default" or (fact.source == "override" and fact.sourcefile is None),
            in_auto_conf=None if fact.sourcefile is None else fact.sourcefile.endswith(f"/{AUTO_CONF}"),
            overridden_by=fact.source if overriding else None,
        )


def comment(lines: Iterable[str], mark: str = "#") -> str:
    """Return lines as comments; what would end a line early is written as a space."""
    return "".join(f"{mark} {' '.join(line.split())}".rstrip() + "\n" for line in lines)


def advice_of(findings: Sequence[Finding], inventory: Inventory, date: str) -> ExportedAdvice:
    """Return the changes that may be written; what is refuted here, unchanged, or may not be set is left out.

    A study's winner is written though it is in force: who has kept it needs the files for the next server.
    """
    items: list[ExportedChange] = []
    left_out: list[LeftOut] = []
    seen: dict[tuple[ChangeKind, str, str], ExportedChange] = {}
    for finding in findings:
        if finding.answer is not Answer.FINDING:
            continue
        for change in (*finding.changes, *_scheduled(finding)):
            is_here = _is_in_force(change, inventory)
            is_kept = is_here and finding.origin == OF_STUDY
            item = ExportedChange(change, finding.rule, finding.title, finding.state, is_waiting(finding), is_kept)
            key = (change.kind, change.knob, change.device)
            first = seen.get(key) if change.kind in _NAMED else None
            if finding.state is ProofState.REFUTED:
                left_out.append(LeftOut(item, "it was refuted by a measurement on this target"))
            elif first is not None:
                if first.change.value != change.value:
                    left_out.append(LeftOut(item, f"{first.rule} proposes {first.change.value} before it"))
            elif (reason := _why_not(change, inventory)) is not None:
                left_out.append(LeftOut(item, reason))
            elif is_kept or not is_here:
                seen[key] = item
                items.append(item)
    return ExportedAdvice(tuple(items), tuple(left_out), inventory, date)


def _scheduled(finding: Finding) -> list[Change]:
    """Return the scheduled VACUUM that a finding names in words, as the exception from autovacuum does."""
    found = (_TIMER.search(text) for text in finding.alternatives)
    return [
        Change(ChangeKind.COMMAND, SCHEDULE, match["event"], commands=(match["command"],)) for match in found if match
    ][:1]


def refusal(change: Change) -> str | None:
    """Return why the policy keeps a change from being written or applied; None when it does not."""
    if change.kind is not ChangeKind.POSTGRESQL:
        named = next((name for line in (*change.commands, *change.undo) if (name := class_x_set_in(line))), None)
        return f"it sets {named}, which is of class X" if named else None
    ruling = ruling_of(change.knob)
    if ruling is not None and ruling.durability is Durability.X:
        return f"class X: {ruling.why}"
    return None


def _why_not(change: Change, inventory: Inventory) -> str | None:
    if (change.knob and _NAME.fullmatch(change.knob) is None) or _DEVICE.fullmatch(change.device) is None:
        return "that is not the name of a knob or a device"
    reason = refusal(change)
    if reason is not None or change.kind is not ChangeKind.POSTGRESQL or isinstance(inventory.server, Unknown):
        return reason
    fact = inventory.server.settings.get(change.knob)
    if fact is None:
        return None if "." in change.knob else "this server has no such parameter"
    try:
        canonical_text(fact, change.value)
    except UsageError as error:
        return error.message
    return None


def _is_in_force(change: Change, inventory: Inventory) -> bool:
    """Tell whether a change would change nothing."""
    server = inventory.server
    fact = None if isinstance(server, Unknown) else server.settings.get(change.knob)
    if change.kind is ChangeKind.POSTGRESQL and fact is not None:
        try:
            return canonical_text(fact, change.value) == canonical_text(fact, fact.setting)
        except UsageError:
            return False
    return change.kind in _NAMED and change.current is not None and change.value == change.current


def _text_of(fact: SettingFact) -> str:
    try:
        return canonical_text(fact, fact.setting)
    except UsageError:
        return fact.setting


def _name(change: Change) -> str:
    return f"{change.knob} = {change.value}" if change.knob else change.kind.value


def _server_text(inventory: Inventory) -> str:
    server = inventory.server
    if isinstance(server, Unknown):
        return f"server {server} ({inventory.origin})"
    place = server.settings.get("data_directory")
    where = f", data directory {place.setting}" if place and place.setting else ""
    return f"{server.flavour} {server.version} ({inventory.origin}){where}"


def _host_text(inventory: Inventory) -> str:
    host = inventory.host
    ram = host.memory.ram_bytes
    memory = str(ram) if isinstance(ram, Unknown) else bytes_text(ram)
    processor = host.processor
    return (
        f"architecture {processor.architecture}, kernel {host.kernel.release}, CPUs {processor.cpus}, memory {memory}"
    )
