"""The file that lets sudo start the agent, and nothing else, as another user of the host."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno import __version__
from pgdyno.linux.block_devices import SWAP_FOLDER
from pgdyno.remote.deploy import INSTALLED

FILE = "/etc/sudoers.d/pgdyno"
ROOT_WRITES = ("/proc/sys", "/sys", str(SWAP_FOLDER))
"""Below which folders a root agent itself writes, beside the undo folder (ADR 0012)."""
_AS_OWNER = """
# What it gives: the rights of {user} on this host, which a superuser of {user}'s server has anyway (COPY ... PROGRAM).
"""
_AS_ROOT = """
# What it gives: treat {login} as root of this host. The agent works on a server's files and runs its programs as the
# server's owner, and takes no command to run from {login}. As root it sets Linux knobs of pgdyno's own list (files
# below {places}), restarts the systemd unit whose main process is the server, and
# starts a server as the process that it was. Prefer --sudo-user with the user that owns the server; root is needed
# only for Linux knobs and to restart a server that systemd manages.
"""


@dataclass(frozen=True, slots=True)
class Grant:
    """Who (`login`) may start the agent of this SHA-256 as whom (`user`); `sent_to` is where the agent was sent."""

    login: str
    user: str
    digest: str
    sent_to: str


def sudoers_text(grant: Grant) -> str:
    """Return the file for review, with the commands that install it and the agent (sudoers(5), Digest_Spec)."""
    meaning = (_AS_ROOT if grant.user == "root" else _AS_OWNER).format(
        login=grant.login, user=grant.user, places=" and ".join((", ".join(ROOT_WRITES[:-1]), ROOT_WRITES[-1]))
    )
    return f"""\
# {FILE}: {grant.login} may start the agent of pgdyno {__version__} as {grant.user}, and nothing else.
#
# Review this file, then, as root on the host:
#
#   install -D -o root -g root -m 0755 {grant.sent_to} {INSTALLED}
#   visudo -c -f pgdyno.sudoers && install -o root -g root -m 0440 pgdyno.sudoers {FILE}
#
# sudo compares the digest before every start, so that another version of pgdyno needs both steps again.
{meaning.strip()}

{grant.login} ALL=({grant.user}) NOPASSWD: sha256:{grant.digest} {INSTALLED} ""
"""
