"""What UNDO.md says of settings that a session made by ALTER SYSTEM: shell commands, three-way as the rollback is.

A line of postgresql.auto.conf goes back only where its value is one that the journal says is ours. Where the server's
files are at hand the file is edited, which a server that is down lets one do as well; else psql asks the server.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from psycopg.conninfo import make_conninfo

from pgdyno.outside.quoting import literal
from pgdyno.routes import auto_conf_file
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.route import Record
from pgdyno.server.postgres import Postgres

_OF_EVERY_LIBPQ = ("host", "hostaddr", "port", "user", "dbname", "sslmode", "sslcert", "sslkey", "sslrootcert")
"""A person's psql may be older than our libpq, and refuses parameters that it does not know."""
_BY_FILE = r"""# A line of {auto_conf} that pgdyno changed; one that somebody else has set since stays.
put() {{
  value=$(sed -n "s/^$1 = '\(.*\)'\$/\1/p" {auto_conf} | sed "s/''/'/g")
  if grep -qF "\"$1\":\"$value\"" {journal}; then sed -i "s/^$1 = .*/$2/" {auto_conf}; fi
}}"""
_BY_SQL = r"""# What pgdyno set by ALTER SYSTEM; what somebody else has set since stays.
put() {{
  value=$(psql {conninfo} -AtX -c "SELECT setting FROM pg_file_settings WHERE name = '$1' AND sourcefile = {auto_conf}")
  if grep -qF "\"$1\":\"$value\"" {journal}; then psql {conninfo} -qX -c "$2"; fi
}}"""
_RESETS = r"""names=$(grep -o '"settings":{{[^}}]*}}' {journal} | grep -o '"[A-Za-z_]*":"' | tr -d '":' | sort -u)
for name in $names; do
  case " {names} " in *" $name "*) ;; *) put "$name" "ALTER SYSTEM RESET $name" ;; esac
done"""


def undo_commands(route: Record, conninfo: str, journal: Path) -> list[str]:
    """Return the commands for the route that a bundle keeps; none where it sets nothing by ALTER SYSTEM."""
    place = route.get("auto_conf")
    if isinstance(place, dict):
        return _by_file(place["path"], place["originals"], journal)
    if isinstance(place, str) and isinstance(originals := route["originals"], list):
        return _by_sql(place, {name: value for name, value in originals if value is not None}, conninfo, journal)
    return []


def _by_file(auto_conf: str, originals: Mapping[str, str], journal: Path) -> list[str]:
    words = {"auto_conf": shlex.quote(auto_conf), "journal": shlex.quote(str(journal))}
    lines = {name: auto_conf_file.written(Line(name, value)).decode().rstrip("\n") for name, value in originals.items()}
    calls = [shlex.join(["put", name, _replacement(line)]) for name, line in lines.items()]
    return [*_BY_FILE.format(**words).splitlines(), *calls]


def _by_sql(auto_conf: str, originals: Mapping[str, str], conninfo: str, journal: Path) -> list[str]:
    known = {name: value for name, value in Postgres(conninfo).parameters.items() if name in _OF_EVERY_LIBPQ}
    words = {
        "conninfo": shlex.quote(make_conninfo("", **known)),
        "journal": shlex.quote(str(journal)),
        "names": " ".join(originals),
    }
    statements = {name: f"ALTER SYSTEM SET {name} = {literal(value)}" for name, value in originals.items()}
    calls = [shlex.join(["put", name, statement]) for name, statement in statements.items()]
    texts = [_BY_SQL.format(**words, auto_conf=_in_double_quotes(literal(auto_conf))), *calls, _RESETS.format(**words)]
    return "\n".join(texts).splitlines()


def _in_double_quotes(text: str) -> str:
    return "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text)


def _replacement(text: str) -> str:
    """Return the text as the right side of sed's s command takes it."""
    return "".join(f"\\{letter}" if letter in "\\/&" else letter for letter in text)
