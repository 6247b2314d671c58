"""Settings reach a Patroni cluster through its dynamic configuration, and leave it the same way (Patroni 2.1 to 4).

`PATCH /config` changes `postgresql.parameters` of the whole cluster in one write, so a configuration is staged whole
or not at all, and a failover in between changes nothing of it: the new leader has loaded the same. Patroni then
writes the file of every member and reloads it by itself.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import ApplyError, EnvironmentUnsuitable, RollbackError
from pgdyno.knobs.policy import load_policy
from pgdyno.model.configuration import Configuration
from pgdyno.routes import patroni_member
from pgdyno.routes.file_check import FileLine, read_files
from pgdyno.routes.route_names import is_ours, may_hold_secret, refuse_strange
from pgdyno.routes.sql_route import set_by_others, staged_of
from pgdyno.routes.written import Written
from pgdyno.server.patroni_api import Member, PatroniApi
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingDifference, SettingState, cluster_differences

KIND = "patroni"
log = logging.getLogger(__name__)
_LATE_S = 30.0
"""A restart or a rewind of a member takes seconds; one that is down for longer loads what there is when it starts."""
LOAD_TIMEOUT_S = 90.0
"""A member begins its loop within `loop_wait`, 10 s by default, and is asked for two; it sleeps 1 s at each reload."""

Parameters = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PatroniRoute:
    """The dynamic configuration of one cluster. `postgres` names all members and follows the leader.

    `originals` is `postgresql.parameters` as it was found, without what `may_hold_secret`; `names` are all that were
    there; `had` says which of the keys `postgresql` and `parameters` there were. `staged` as in `SqlRoute`.
    """

    api: PatroniApi
    postgres: Postgres
    originals: Parameters
    names: frozenset[str]
    had: tuple[str, ...] = ("postgresql", "parameters")
    timeout_s: float = LOAD_TIMEOUT_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    staged: dict[str, set[str]] | None = field(default_factory=dict, compare=False)

    @classmethod
    def open(cls, api: PatroniApi, postgres: Postgres) -> PatroniRoute:
        """Take down the dynamic configuration as it is.

        Raises ConnectError when no endpoint answers, EnvironmentUnsuitable when we may not change it.
        """
        found = api.dynamic_configuration()
        section = found.get("postgresql")
        parameters = _parameters(found)
        had = [name for name, there in (("postgresql", section), ("parameters", _inner(section))) if there is not None]
        kept = {name: value for name, value in parameters.items() if not may_hold_secret(name)}
        return cls(api, postgres, kept, frozenset(parameters), tuple(had))

    @property
    def source(self) -> Path | None:
        """Return None: every member has a file of its own, and the leader may change."""
        return None

    @property
    def accepted_sources(self) -> frozenset[str]:
        """Return the values of `pg_settings.source` that our settings come from.

        Patroni passes some to the postmaster as arguments (its `CMDLINE_OPTIONS`: max_connections, wal_level ...).
        """
        return frozenset({"configuration file", "command line"})

    def record(self) -> dict[str, object]:
        """Return plain JSON values; see `Route.record`."""
        return {
            "kind": KIND,
            "api": self.api.record(),
            "originals": dict(self.originals),
            "names": sorted(self.names),
            "had": list(self.had),
            "timeout_s": self.timeout_s,
        }

    @classmethod
    def from_record(
        cls, record: Mapping[str, object], *, postgres: Postgres, written: Written | None = None
    ) -> PatroniRoute:
        """Rebuild it. Raises KeyError or ValueError on anything else than what `record` made."""
        originals, names, had = (record[key] for key in ("originals", "names", "had"))
        if not isinstance(originals, dict) or not isinstance(names, list) or not isinstance(had, list):
            raise ValueError("not the record of a Patroni route")
        return cls(
            api=PatroniApi.from_record(record["api"]),
            postgres=postgres,
            originals=originals,
            names=frozenset(map(str, names)),
            had=tuple(map(str, had)),
            timeout_s=float(str(record["timeout_s"])),
            staged=staged_of(written),
        )

    def stage(self, configuration: Configuration, *, session: str) -> None:
        """Write the parameters in one PATCH and wait until every running member has loaded them; see `Route.stage`.

        Raises PolicyError for a parameter that is not ours to set, and EnvironmentUnsuitable for one that standbys
        must get before their primary while there is a standby, and when a member does not load the configuration.
        """
        members = self.api.members()
        _refuse(configuration, members)
        self._refuse_foreign(configuration)
        if self.staged is not None:
            for name, value in configuration.items():
                self.staged.setdefault(name, set()).add(value)
        changes = self._changes(configuration)
        if changes:
            self.api.patch({"postgresql": {"parameters": changes}})
            self._wait_loaded(members)
            self._have_written([one for one in members if one.is_up])
        if not configuration:
            self._remove_empty()

    def check(self, configuration: Configuration) -> None:
        """See what the leader makes of its file, which Patroni has written by now; see `Route.check`."""
        reading = read_files(self.postgres)
        for line in reading.rejected():
            if line.name in configuration:
                raise _rejection(line)
        written = {line.name for line in reading.lines}
        for name, value in configuration.items():
            if name not in written:
                raise ApplyError(
                    f"Patroni did not take over {name} = {value}",
                    detail="It leaves out what its own rules or PostgreSQL's do not allow, and says so in its log.",
                    hint=f"pgdyno knobs {name} shows its range on this server.",
                )

    def keep(self, configuration: Configuration, *, session: str) -> None:
        """Do nothing: what was staged stays by itself; see `Route.keep`."""

    def put_back(self) -> Sequence[str]:
        """Give every parameter its value of before, or take it away; see `Route.put_back`.

        A member that is about to start or to be demoted is waited for; one that is down loads it when it starts.
        """
        changes = self._changes(Configuration())
        if changes:
            self.api.patch({"postgresql": {"parameters": changes}})
            members = self.api.members()
            for wave in ([one for one in members if one.is_leader], [one for one in members if not one.is_leader]):
                with contextlib.suppress(EnvironmentUnsuitable):  # what is not loaded yet shows in the settings
                    self._wait_loaded(wave)
        if changes or self.staged:
            self._tell_late()
        self._remove_empty()
        deadline = self.clock() + self.timeout_s
        while (left := self.leftovers()) and self.clock() < deadline:
            self.sleep(0.5)  # what a member answers of the dynamic configuration is as old as its latest loop
        if left:
            raise RollbackError(
                "the configuration of the Patroni cluster is not as it was",
                detail="\n".join(left),
                hint="Repeat the undo when patronictl list shows every member up.",
            )
        return sorted(changes)

    def plan(self) -> list[str]:
        """Return the parameters that `put_back` would patch; see `Route.plan`."""
        changes = self._changes(Configuration())
        return [
            f"Patroni's dynamic configuration: {name} {'goes' if value is None else f'= {value}'}"
            for name, value in sorted(changes.items())
        ]

    def leftovers(self) -> Sequence[str]:
        """Return a sentence for each parameter that is not as it was; see `Route.leftovers`."""
        current = _parameters(self.api.dynamic_configuration())
        found = [
            f"{name} is {current.get(name, 'absent')} in Patroni's dynamic configuration, was {value}"
            for name, value in self.originals.items()
            if current.get(name) != value and self._is_from_us(name, current)
        ]
        found += [
            f"{name} = {value} is in Patroni's dynamic configuration and was not"
            for name, value in current.items()
            if name not in self.names and self._is_from_us(name, current)
        ]
        return found + self._missed()

    def differences(
        self, before: Mapping[str, SettingState], after: Mapping[str, SettingState]
    ) -> tuple[SettingDifference, ...]:
        """Return every setting whose value is not what it was.

        Where it comes from is another file after a failover, and what goes with a node's role or place is not ours.
        """
        return cluster_differences(before, after)

    def _changes(self, configuration: Configuration) -> dict[str, object]:
        """Return what has to be patched so that the parameters are the originals with the configuration on top.

        A parameter that somebody else has changed since stays as it is, unless the configuration names it.
        """
        current = _parameters(self.api.dynamic_configuration())
        originals = {name: value for name, value in self.originals.items() if self._is_from_us(name, current)}
        wanted: dict[str, object] = {**originals, **configuration}
        changes: dict[str, object] = {
            name: value for name, value in wanted.items() if name not in current or current[name] != value
        }
        gone = (name for name in current if name not in wanted and name not in self.names)
        return changes | {name: None for name in gone if self._is_from_us(name, current)}

    def _refuse_foreign(self, names: Iterable[str]) -> None:
        """Raise ApplyError for a parameter that somebody else has set since: it is theirs, and is not overwritten."""
        current = _parameters(self.api.dynamic_configuration())
        for name in names:
            if current.get(name) != self.originals.get(name) and not self._is_from_us(name, current):
                raise set_by_others(name, current.get(name), "Patroni's dynamic configuration")

    def _is_from_us(self, name: str, current: Parameters) -> bool:
        """Tell whether the value that a parameter has now is from this session."""
        if self.staged is None:
            return name in self.originals or is_ours(name)
        return is_ours(name) and name in current and str(current[name]) in self.staged.get(name, ())

    def _remove_empty(self) -> None:
        """Take away the keys that were not there and hold nothing."""
        found = self.api.dynamic_configuration()
        if "parameters" not in self.had and _inner(found.get("postgresql")) == {}:
            self.api.patch({"postgresql": {"parameters": None}})
        if "postgresql" not in self.had and self.api.dynamic_configuration().get("postgresql") == {}:
            self.api.patch({"postgresql": None})

    def _wait_loaded(self, members: Sequence[Member]) -> None:
        """Wait until each running member has taken the dynamic configuration over and reloaded.

        A member's loop reloads what it was asked to, then reads the dynamic configuration. So when a second reload
        is seen, the loop of the first has ended, which began after the change was written.
        """
        running = [member for member in members if member.is_up]
        for _ in range(2):
            deadline = self.clock() + self.timeout_s
            before = {member.name: self._patiently_loaded_at(member, deadline) for member in running}
            for member in running:
                self.api.reload(member)
            deadline = self.clock() + self.timeout_s
            for member in running:
                while self._patiently_loaded_at(member, deadline) <= before[member.name]:
                    if self.clock() >= deadline:
                        raise EnvironmentUnsuitable(
                            f'member "{member.name}" did not load the configuration within {self.timeout_s:g} s',
                            hint="See patronictl list and the log of its Patroni.",
                        )
                    self.sleep(0.1)

    def _have_written(self, members: Sequence[Member]) -> None:
        """Have members write what they missed: one that is told to reload compares its settings with those asked for.

        A parameter that is asked for no more is not compared, and stays. It is asked for once more, with the value
        that the leader has anyhow, and then taken away again.
        """
        deadline, again = self.clock() + self.timeout_s, dict[str, str]()
        try:
            for member in members:
                while missed := self._missed_by(member):
                    if self.clock() >= deadline:
                        raise EnvironmentUnsuitable(
                            f'member "{member.name}" did not write its configuration within {self.timeout_s:g} s',
                            hint="See the log of its Patroni; a restart of the member makes it write.",
                        )
                    if gone := missed.keys() - _parameters(self.api.dynamic_configuration()).keys():
                        again |= self._in_force(gone)
                        self.api.patch({"postgresql": {"parameters": again}})
                    self.api.reload(member)
                    self.sleep(1.0)
        finally:
            if again:
                self.api.patch({"postgresql": {"parameters": dict.fromkeys(again)}})
        if again:
            self._wait_loaded(members)

    def _in_force(self, names: Iterable[str]) -> dict[str, str]:
        found = self.postgres.fetch(
            "SELECT name, current_setting(name) AS value FROM pg_settings WHERE name = ANY(%s)", [sorted(names)]
        )
        values = {str(row["name"]): str(row["value"]) for row in found}
        if self.staged is not None:
            for name, value in values.items():
                self.staged.setdefault(name, set()).add(value)
        return values

    def _tell_late(self) -> None:
        """Wait for members that are not up, and have those reload that missed the change meanwhile.

        One that is demoted is called stopped while it is rewound, which brings it the leader's file of that moment.
        """
        deadline = self.clock() + _LATE_S
        while (late := [one for one in self.api.members() if not self._serves(one)]) and self.clock() < deadline:
            self.sleep(0.5)
        for member in late:
            log.warning('member "%s" is %s: see that it has the configuration', member.name, member.state)
        with contextlib.suppress(EnvironmentUnsuitable):
            self._have_written([one for one in self.api.members() if one.is_up])

    def _serves(self, member: Member) -> bool:
        """Tell whether a member takes sessions; what Patroni calls it is up to one loop old."""
        try:
            return member.is_up and patroni_member.loaded_at(member, self.postgres) > 0
        except EnvironmentUnsuitable:
            return False

    def _missed(self) -> list[str]:
        """Return a sentence for each value of ours that only a member's file still holds."""
        return [
            f'member "{member.name}" still has {name} = {value} in its file'
            for member in self.api.members()
            if member.is_up
            for name, value in self._missed_by(member).items()
        ]

    def _missed_by(self, member: Member) -> Mapping[str, str]:
        if not self.staged:
            return {}
        return patroni_member.missed(member, self.postgres, _parameters(self.api.dynamic_configuration()), self.staged)

    def _patiently_loaded_at(self, member: Member, deadline: float) -> float:
        """Ask a member that Patroni calls running until it answers: in a failover it is away for a moment."""
        while True:
            try:
                return patroni_member.loaded_at(member, self.postgres)
            except EnvironmentUnsuitable:
                if self.clock() >= deadline:
                    raise
                self.sleep(0.5)


def _refuse(configuration: Configuration, members: Sequence[Member]) -> None:
    refuse_strange(configuration)
    standbys = [member.name for member in members if not member.is_leader]
    ordered = sorted(load_policy().standby_ordered & configuration.keys())
    if ordered and standbys:
        raise EnvironmentUnsuitable(
            f"{', '.join(ordered)} cannot be tried while {', '.join(standbys)} follows the leader",
            detail="A standby with less than its primary stops replaying, and the order of restarts depends on "
            "the direction of the change.",
            hint="Leave it out.",
        )


def _inner(section: object) -> object:
    return section.get("parameters") if isinstance(section, dict) else None


def _parameters(configuration: Mapping[str, object]) -> Parameters:
    inner = _inner(configuration.get("postgresql"))
    return inner if isinstance(inner, dict) else {}


def _rejection(line: FileLine) -> ApplyError:
    return ApplyError(
        f"the server rejected {line.words}",
        detail=f"{line.place}: {line.error}",
        hint=f"pgdyno knobs {line.name} shows its range on this server.",
    )
