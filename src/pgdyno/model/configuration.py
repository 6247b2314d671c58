"""A configuration: knobs with values, as text that `postgresql.conf` or the kernel would accept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.outside.numbers import is_without_measure


@dataclass(frozen=True, slots=True)
class Configuration(Mapping[str, str]):
    """An immutable mapping of knob name to value text, sorted by name.

    The empty configuration is the baseline: the server as it was found. Values are the canonical text of
    `units.format_quantity` (`4GB`, `0.9`, `on`), so that equal configurations compare equal.
    """

    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Configuration:
        """Build one from any mapping. Raises UsageError for a value that no server and no kernel can take."""
        for name, value in settings.items():
            _check(name, value)
        return cls(tuple(sorted(settings.items())))

    def __getitem__(self, name: str) -> str:
        for key, value in self.settings:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    def without(self, *names: str) -> Configuration:
        """Return a copy in which these knobs are back at the baseline."""
        return Configuration(tuple(item for item in self.settings if item[0] not in names))

    def linux(self) -> Configuration:
        """Return what is set on the host alone: Linux knobs, and bounds around the server."""
        from pgdyno.model.linux import is_of_host  # reads the table of the knobs, which a page about runs does without

        return Configuration(tuple(item for item in self.settings if is_of_host(item[0])))

    def postgresql(self) -> Configuration:
        """Return PostgreSQL's parameters alone."""
        return self.without(*self.linux())

    def fingerprint(self) -> str:
        """Return 12 hex digits that name these settings, the same on every machine."""
        text = "\n".join(f"{name} = {value}" for name, value in self.settings)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def fragment(self) -> str:
        """Return the settings as lines of a `postgresql.conf`, values quoted as PostgreSQL reads them."""
        lines = (f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in self.settings)
        return "".join(f"{line}\n" for line in lines)


def _check(name: str, value: str) -> None:
    if is_without_measure(value):
        text = f"{value[:40]}..." if len(value) > 40 else value
        raise UsageError(f'knob "{name}": "{text}" is too large for a number', hint="Write it as 128MB.")


BASELINE = Configuration()
