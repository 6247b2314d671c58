"""What UNDO.md says of settings in Patroni's dynamic configuration: commands of curl, three-way as the rollback.

A parameter goes back only where its value is one that the journal says is ours. The password goes to curl by its
standard input, from the file that holds it.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from pgdyno.routes.route import Record
from pgdyno.server.patroni_api import PatroniApi

_TEXT = r"""# What pgdyno set in Patroni's dynamic configuration; what somebody else has set since stays.
ask() {{
  for url in {endpoints}; do
    {credentials} | curl -sSf -K - {trusts} -X PATCH -d "$1" "$url/config" && return
  done
}}
put() {{
  value=$(ask '{{"pgdyno":null}}' | sed -n "s/.*\"$1\": \"\([^\"]*\)\".*/\1/p")
  if grep -qF "\"$1\":\"$value\"" {journal}; then ask "{{\"postgresql\":{{\"parameters\":{{\"$1\":$2}}}}}}"; fi
}}
{calls}
names=$(grep -o '"settings":{{[^}}]*}}' {journal} | grep -o '"[A-Za-z_]*":"' | tr -d '":' | sort -u)
for name in $names; do
  case " {names} " in *" $name "*) ;; *) put "$name" null ;; esac
done"""


def undo_commands(route: Record, journal: Path) -> list[str]:
    """Return the commands for the route that a bundle keeps; none where it is not Patroni's."""
    record, originals = route.get("api"), route.get("originals")
    if not isinstance(record, dict) or not isinstance(originals, dict):
        return []
    api = PatroniApi.from_record(record)
    trusts = {"--cacert": api.ca_file, "--cert": api.cert_file}
    text = _TEXT.format(
        endpoints=shlex.join(api.endpoints),
        credentials=_credentials(api.auth_file),
        trusts=shlex.join(word for option, file in trusts.items() if file for word in (option, str(file))),
        journal=shlex.quote(str(journal)),
        calls="\n".join(shlex.join(["put", name, json.dumps(value)]) for name, value in originals.items()) or ":",
        names=" ".join(originals),
    )
    return text.splitlines()


def _credentials(file: Path | None) -> str:
    """Return a command that prints a line for curl's configuration, empty where the API asks for no password."""
    if file is None:
        return """printf 'user = "%s"\\n' "$PGDYNO_PATRONI_AUTH\""""
    return shlex.join(["sed", "-n", '1s/.*/user = "&"/p', str(file)])
