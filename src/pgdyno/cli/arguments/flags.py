"""Typed access to what click has parsed: click checks the type, these tell it to the type checker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pgdyno.errors import UsageError


@dataclass(frozen=True, slots=True)
class Flags:
    """The parsed flags of one call, by parameter name."""

    values: Mapping[str, object]

    def text(self, name: str) -> str | None:
        """Return a text, None when it was not given."""
        value = self.values[name]
        return None if value is None else str(value)

    def choice(self, name: str) -> str:
        """Return a text that has a default."""
        return str(self.values[name])

    def number(self, name: str) -> float | None:
        """Return a number, None when it was not given."""
        value = self.values[name]
        return float(value) if isinstance(value, int | float) else None

    def real(self, name: str) -> float:
        """Return a number that has a default."""
        value = self.number(name)
        if value is None:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} needs a number", hint=f"Write it as {flag} 10.")
        return value

    def whole(self, name: str) -> int:
        """Return a whole number that has a default."""
        return int(self.real(name))

    def path(self, name: str) -> Path | None:
        """Return a path, None when it was not given."""
        value = self.values[name]
        return value if isinstance(value, Path) else None

    def paths(self, name: str) -> tuple[Path, ...]:
        """Return several paths."""
        value = self.values[name]
        return tuple(Path(str(item)) for item in value) if isinstance(value, tuple | list) else ()

    def words(self, name: str) -> tuple[str, ...]:
        """Return what a flag that may be given again has gathered."""
        value = self.values[name]
        return tuple(str(item) for item in value) if isinstance(value, tuple | list) else ()

    def on(self, name: str) -> bool:
        """Return whether a switch is on."""
        return bool(self.values[name])

    def least_and_most(self, name: str) -> tuple[int, int]:
        """Return a pair of whole numbers; UsageError when the first is above the second."""
        least, most = (int(word) for word in self.words(name))
        if least > most:
            raise UsageError(
                f"--{name} {least} {most}: the minimum is above the maximum",
                hint=f"Write the smaller number first: --{name} {most} {least}.",
            )
        return least, most


F = TypeVar("F", bound=Callable[..., object])


def stack(function: F, options: Sequence[Callable[[F], F]]) -> F:
    """Return the function with these flags, in the order in which help lists them."""
    for option in reversed(options):
        function = option(function)
    return function
