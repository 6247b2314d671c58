"""What a session ever meant to write, from its journal: every configuration that was in force or about to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pgdyno.model.configuration import Configuration
from pgdyno.undo.journal import JournalRecord

INTENT = "intent"
FILES_BACK = "files back"


@dataclass(frozen=True, slots=True)
class Written:
    """The configurations, in the order of the journal.

    `is_known` is False when the journal was damaged: then there may have been others, and everything counts as perhaps
    ours. `is_undone` says that our lines were taken out of the files once.
    """

    configurations: tuple[Configuration, ...]
    is_known: bool = True
    is_undone: bool = False

    @classmethod
    def of(cls, records: Iterable[JournalRecord], *, is_known: bool = True) -> Written:
        """Read it from the records of a journal. Each configuration counts once."""
        records = tuple(records)
        is_undone = any(record.kind == FILES_BACK for record in records)
        found = (record.data.get("settings") for record in records if record.kind == INTENT)
        texts = (
            Configuration.of({str(name): str(value) for name, value in settings.items()})
            for settings in found
            if isinstance(settings, dict)
        )
        return cls(tuple(dict.fromkeys(texts)), is_known, is_undone)

    @property
    def names(self) -> frozenset[str]:
        """Return every knob that the session meant to set."""
        return frozenset(name for configuration in self.configurations for name in configuration)

    def may_have_set(self, name: str) -> bool:
        """Tell whether the session can have set a knob."""
        return not self.is_known or name in self.names

    def values(self) -> dict[str, frozenset[str]]:
        """Return each knob with every value that the session meant to give it."""
        found: dict[str, set[str]] = {}
        for configuration in self.configurations:
            for name, value in configuration.items():
                found.setdefault(name, set()).add(value)
        return {name: frozenset(values) for name, values in found.items()}
