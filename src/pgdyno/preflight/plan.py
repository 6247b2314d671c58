"""What the settings will be once the server has read its files again and, where needed, was restarted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.routes.file_check import FileReading
from pgdyno.server.effectiveness import same_value
from pgdyno.server.snapshot import SettingState
from pgdyno.units import BYTES, parse_quantity, split_unit


@dataclass(frozen=True, slots=True)
class StartPlan:
    """The settings of the next start: `asked` above the files above the built-in values, as the server stacks them.

    `now` is `pg_settings` of the running server, `lines` the text of the last line of each knob in its files. With
    `restart` False only what a reload changes is judged. `dry` says that `asked` is in no file yet.
    """

    asked: Configuration
    now: Mapping[str, SettingState]
    lines: Mapping[str, str]
    restart: bool
    dry: bool = False

    @classmethod
    def of(cls, asked: Configuration, reading: FileReading, *, restart: bool, dry: bool = False) -> StartPlan:
        """Build one from what the server says of its files; `restart` and `dry` as in the class.

        `asked` has the wanted values by knob; `reading` gives `now`, and `lines` by the last line of each knob.
        """
        lines = {line.name.lower(): line.setting or "" for line in reading.lines if line.name is not None}
        return cls(asked, reading.settings, lines, restart, dry)

    @property
    def major(self) -> int:
        """Return the server's major version."""
        return int(self.now["server_version_num"].setting or 0) // 10_000

    def text(self, name: str) -> str | None:
        """Return the value's text: with its unit as it was written, or bare in base units; None when unknown here."""
        state = self.now.get(name)
        if state is None:
            return None
        if state.source == "command line":  # outranks every file
            return state.setting
        if name in self.asked:
            return self.asked[name]
        return self.lines.get(name.lower(), state.boot_val)

    def number(self, name: str) -> float | None:
        """Return the value in base units; None when the server has no such number."""
        text, state = self.text(name), self.now.get(name)
        if text is None or state is None:
            return None
        try:
            return parse_quantity(text, state.unit)
        except UsageError:  # the server will say so itself, in better words
            return None

    def size(self, name: str) -> int | None:
        """Return a memory or disk setting in bytes; None when there is none, or it stands for a computed value."""
        number, state = self.number(name), self.now.get(name)
        if number is None or number < 0 or state is None or state.unit is None:
            return None
        multiplier, unit = split_unit(state.unit)
        return int(number * multiplier * BYTES[unit]) if unit in BYTES else None

    def changes(self, name: str) -> bool:
        """Return True when the value will differ from the one that the running server has."""
        text, state = self.text(name), self.now.get(name)
        return text is not None and state is not None and not same_value(text, state)

    def figure(self, name: str) -> str:
        """Return `name = value` for people."""
        return f"{name} = {self.text(name)}"
