"""System V objects of others than the server, from /proc/sysvipc. Pure.

The server's own: the segment that its postmaster made (a mark that keeps two servers off one data directory), and the
semaphores of its user, where it was built to use such. It has no message queue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pgdyno.capture.texts import Capture
from pgdyno.model.facts import Unknown

_FOLDER = "proc/sysvipc"
_MARK_BYTES = 4096
"""A segment up to this size is the mark of another PostgreSQL: it uses no System V memory worth a limit."""
Row = Mapping[str, int]


def read_foreign_ipc(capture: Capture) -> Mapping[str, int] | Unknown:
    """Return how many objects of a kind (`shm`, `sem`, `msg`) belong to others; a kind that is not known is left out.

    Unknown when none of the kinds is known.
    """
    tables = {kind: _table(capture.text(f"{_FOLDER}/{kind}")) for kind in ("shm", "sem", "msg")}
    found: dict[str, int] = {}
    reasons = [table.reason for table in tables.values() if isinstance(table, Unknown)]
    segments, sets, queues = tables["shm"], tables["sem"], tables["msg"]
    if not isinstance(segments, Unknown):
        pid = _postmaster(capture)
        large = [row for row in segments if row["size"] > _MARK_BYTES]
        if isinstance(pid, Unknown) and large:
            reasons.append(pid.reason)
        else:
            found["shm"] = sum(row["cpid"] != pid for row in large)
    if not isinstance(sets, Unknown):
        user = _user(capture)
        if isinstance(user, Unknown) and sets:
            reasons.append(user.reason)
        else:
            found["sem"] = sum(row["cuid"] != user for row in sets)
    if not isinstance(queues, Unknown):
        found["msg"] = len(queues)
    return found or Unknown("; ".join(dict.fromkeys(reasons)))


def _table(text: str | Unknown) -> Sequence[Row] | Unknown:
    """Return the rows by column name; the kernel's columns differ between versions at their end only."""
    if isinstance(text, Unknown):
        return text
    lines = text.splitlines()
    header = lines[0].split() if lines else []
    if "key" not in header or "cuid" not in header:
        return Unknown("it is not a table of /proc/sysvipc")
    rows = []
    for line in lines[1:]:
        words = line.split()
        if len(words) != len(header):
            return Unknown("a table of /proc/sysvipc was cut")
        rows.append({name: int(word) for name, word in zip(header, words, strict=True) if name != "perms"})
    return rows


def _postmaster(capture: Capture) -> int | Unknown:
    about = capture.document("commands/postmaster.json")
    if isinstance(about, Unknown):
        return about
    pid = about.get("pid") if isinstance(about, dict) else None
    return pid if isinstance(pid, int) else Unknown("the postmaster's process is not known")


def _user(capture: Capture) -> int | Unknown:
    text = capture.text("proc/postmaster/status")
    if isinstance(text, Unknown):
        return text
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else Unknown("proc/postmaster/status names no user")
