"""What the server gives every session, where our own session has another value: by its files, else unknown. Pure.

pg_settings shows what ALTER ROLE, ALTER DATABASE and the connection's options made of a setting for the session that
asks, and its reset_val is theirs too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.capture.server_queries import is_of_session
from pgdyno.inventory.settings_file import base_value
from pgdyno.model.facts import SettingFact, Unknown


@dataclass(frozen=True, slots=True)
class ServerValues:
    """The settings of the server, and those that are not known because our session has its own, with the reason."""

    settings: Mapping[str, SettingFact]
    hidden: Mapping[str, str]


def server_values(settings: Mapping[str, SettingFact], lines: Sequence[Mapping[str, object]] | Unknown) -> ServerValues:
    """Return the server's own values. `lines` are rows of pg_file_settings, the last of a name counts.

    A setting that no file sets is at its built-in value; one that the command line sets as well is taken as the file
    has it, because no view shows that.
    """
    known: dict[str, SettingFact] = {}
    hidden: dict[str, str] = {}
    in_files = {} if isinstance(lines, Unknown) else {str(row.get("name", "")).lower(): row for row in lines}
    for name, fact in settings.items():
        line = in_files.get(name.lower())
        if not is_of_session(name, fact.source):
            known[name] = fact
        elif line is not None:
            known[name] = _of_file(fact, line)
        elif isinstance(lines, Unknown) or fact.boot_val is None:
            hidden[name] = (
                f"this role's sessions have {fact.setting}{fact.unit or ''} of their own (source: {fact.source}), and "
                "only a role that may read pg_file_settings is told the server's value"
            )
        else:
            known[name] = replace(fact, setting=fact.boot_val, reset_val=fact.boot_val, source="default")
    return ServerValues(known, hidden)


def _of_file(fact: SettingFact, line: Mapping[str, object]) -> SettingFact:
    number = line.get("sourceline")
    value = base_value(fact, str(line.get("setting") or ""))
    return replace(
        fact,
        setting=value,
        reset_val=value,
        source="configuration file",
        sourcefile=str(line["sourcefile"]) if line.get("sourcefile") else None,
        sourceline=number if isinstance(number, int) else None,
    )
