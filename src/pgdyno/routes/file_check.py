"""What the server makes of the configuration files, before it is told to read them (`pg_file_settings`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import DictRow

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.owner.runner import Runner
from pgdyno.routes.route_names import may_hold_secret
from pgdyno.server import snapshot
from pgdyno.server.effectiveness import same_value
from pgdyno.server.postgres import Postgres, query_error, row_as
from pgdyno.server.snapshot import SettingState

_QUERY = """
SELECT sourcefile, sourceline, name, setting, applied, error FROM pg_catalog.pg_file_settings ORDER BY seqno
"""
# Sources that outrank every file: a line that they override is loaded and yet not in force.
_OUTRANKING = frozenset({
    "command line", "global", "database", "user", "database user", "client", "override", "session", "interactive",
    "environment variable",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileLine:
    """One row of `pg_file_settings`; `name` is None for a line that cannot be read.

    `sourcefile` is None for a knob that is no longer in any file and keeps its value until the next restart.
    """

    sourcefile: str | None
    sourceline: int | None
    name: str | None
    setting: str | None
    applied: bool
    error: str | None

    @property
    def words(self) -> str:
        """Return what the line sets, for people; a value that may be a secret is left out."""
        hidden = self.name is not None and may_hold_secret(self.name)
        return f"{self.name} = {'(not shown)' if hidden else self.setting}"

    @property
    def place(self) -> str:
        """Return the file and line, for people."""
        return f"{self.sourcefile} line {self.sourceline}" if self.sourcefile else "taken out of the files"


@dataclass(frozen=True, slots=True)
class FileReading:
    """All lines in the order of reading, and the settings as the session saw them after reading the files.

    A valid new value of a knob that needs a restart has `error` in its line and `pending_restart` in its setting,
    in the session that looked; an invalid one has the error alone. That is how the two are told apart.
    """

    lines: tuple[FileLine, ...]
    settings: Mapping[str, SettingState]

    def waits_for_restart(self, line: FileLine) -> bool:
        """Return True when the line's value is valid and only a restart is missing."""
        state = self._state(line)
        return state is not None and state.pending_restart

    def rejected(self) -> list[FileLine]:
        """Return the lines that the server cannot use."""
        bad = (line for line in self.lines if line.error is not None and line.sourcefile is not None)
        return [line for line in bad if not self.waits_for_restart(line)]

    def waiting(self) -> frozenset[str]:
        """Return the knobs that a line gives a new value, valid, which a restart would bring into force."""
        last = {line.name.lower(): line for line in self.lines if line.name is not None and line.sourcefile is not None}
        waiting = ((line, self._state(line)) for line in last.values() if self.waits_for_restart(line))
        return frozenset(
            state.name for line, state in waiting if state is not None and not same_value(line.setting or "", state)
        )

    def taken_out(self) -> frozenset[str]:
        """Return the knobs of which no line is left, and which a restart would give their built-in value."""
        named = {line.name.lower() for line in self.lines if line.name is not None and line.sourcefile is not None}
        return frozenset(
            name for name, state in self.settings.items() if state.pending_restart and name.lower() not in named
        )

    def overridden(self, file: Path) -> list[tuple[FileLine, FileLine]]:
        """Return each last line for its knob in our file that a later line elsewhere overrides, with that line."""
        last = {line.name.lower(): line for line in self.lines if line.name is not None}
        ours = {
            line.name.lower(): line for line in self.lines if line.name is not None and line.sourcefile == str(file)
        }
        return [(line, last[name]) for name, line in ours.items() if last[name] is not line]

    def unread(self) -> list[str]:
        """Return, for people, what the files say that is not in force: edits without a reload or a restart.

        A value that may be a secret is left out: a study that such an edit ends keeps these words.
        """
        last = {line.name.lower(): line for line in self.lines if line.name is not None}
        found = [f"{line.place}: {line.error}" for line in self.lines if line.error is not None]
        for line in last.values():
            state = self._state(line)
            if line.error is None and state is not None and not _is_loaded(line, state):
                now = "another" if may_hold_secret(state.name) else state.setting
                found.append(f"{line.place}: {line.words}, in force is {now} ({state.place()})")
        known = {(line.sourcefile, line.sourceline) for line in self.lines}
        found += [
            f"{state.place()}: {state.name} is in force but no longer in the file"
            for state in self.settings.values()
            if state.sourcefile is not None and (state.sourcefile, state.sourceline) not in known
        ]
        return found

    def _state(self, line: FileLine) -> SettingState | None:
        name = line.name or ""
        if (found := self.settings.get(name)) is not None:
            return found
        name = name.lower()
        return next((state for key, state in self.settings.items() if key.lower() == name), None)


def _is_loaded(line: FileLine, state: SettingState) -> bool:
    if state.source in _OUTRANKING:
        return True
    in_place = (state.sourcefile, state.sourceline) == (line.sourcefile, line.sourceline)
    return in_place and same_value(line.setting or "", state)


def read_files(postgres: Postgres) -> FileReading:
    """Ask the server to read its configuration files without applying them.

    Needs a superuser, or the right to call `pg_show_all_file_settings` and `pg_read_all_settings`. Raises
    EnvironmentUnsuitable, with the verb that lists the grants, when the role has not. No effect on the server.
    """
    with postgres.connect() as connection:
        return files_seen_by(connection, postgres.label)


def files_seen_by(connection: psycopg.Connection[DictRow], label: str) -> FileReading:
    """Do what `read_files` does in a session that was opened for it."""
    try:
        rows = connection.execute(_QUERY).fetchall()
    except psycopg.errors.InsufficientPrivilege as error:
        raise EnvironmentUnsuitable(
            f'the role on "{label}" may not read pg_file_settings',
            detail="Without it nobody can tell whether a value was accepted, and from which file it comes.",
            hint="Run pgdyno privileges --for preflight, apply or tune with the same --target: it prints GRANTs.",
        ) from error
    except psycopg.Error as error:
        raise query_error(label, error) from error
    settings = snapshot.read_settings(connection, label=label)
    return FileReading(tuple(row_as(FileLine, row, label) for row in rows), settings)


def refuse_waiting(postgres: Postgres, is_ours: Callable[[str], bool]) -> None:
    """Refuse a restart that would bring into force what somebody else has written into the files since.

    When a server's port, memory or libraries change is up to whoever changed them. Raises EnvironmentUnsuitable.
    """
    reading = read_files(postgres)
    theirs = sorted(name for name in reading.waiting() | reading.taken_out() if not is_ours(name))
    if theirs:
        raise EnvironmentUnsuitable(
            f"a restart would bring {', '.join(theirs)} into force, which somebody else has changed",
            detail="The new value is in the configuration files, or the old one is in none any more.",
            hint="Restart the server for it or take it back, then continue or start again.",
        )


def complaints(
    runner: Runner, *, bin_dir: Path, data_directory: str, main_file: str, user: str | None, env: Mapping[str, str]
) -> Sequence[str]:
    """Return the server program's own words about its configuration files, such as the valid range of a value.

    Has `runner` run `postgres -C` of `bin_dir` on `data_directory`, as `user` (None: our own account) and with `env`
    added to its environment. It reads `main_file` and what it includes, prints one setting and ends, beside a running
    server. Returns nothing when the program cannot be run: the words are a detail, `pg_file_settings` decides.
    """
    argv = [str(bin_dir / "postgres"), "-C", "data_directory", "-D", data_directory, "-c", f"config_file={main_file}"]
    try:
        done = runner.run(argv, env={**env, "LC_ALL": "C"}, user=user, timeout_s=30, check=False)
    except EnvironmentUnsuitable:
        return []
    return [line.partition("LOG:")[2].strip() for line in done.stderr.splitlines() if "LOG:" in line]
