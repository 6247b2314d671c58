"""The operating system account that a server belongs to, and how a process of root's becomes it for good."""

from __future__ import annotations

import errno
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from pgdyno.outside.mounts import fuse_makers, teller_of
from pgdyno.outside.way import ways
from pgdyno.owner.becoming import become_ids, parse_ids


@dataclass(frozen=True, slots=True)
class Account:
    """A user id, its group id and all groups. `name` is None where the system has none for the id, as in containers."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str | None = None
    home: str = "/nonexistent"

    @classmethod
    def of_user(cls, uid: int, gid: int | None = None) -> Account:
        """Look an id up; `gid` stands in for the group of one that the system does not know."""
        try:
            found = pwd.getpwuid(uid)
        except KeyError:
            group = uid if gid is None else gid
            return cls(uid, group, (group,))
        return cls(uid, found.pw_gid, tuple(os.getgrouplist(found.pw_name, found.pw_gid)), found.pw_name, found.pw_dir)

    @classmethod
    def parse(cls, text: str) -> Account:
        """Rebuild an account from its `numbers`. Raises ValueError on anything else."""
        return cls(*parse_ids(text))

    @property
    def numbers(self) -> str:
        """Return the ids as a word for an argument list."""
        return f"{self.uid}:{self.gid}:{','.join(map(str, self.groups))}"

    @property
    def is_ours(self) -> bool:
        """Return True when this process works with the account's rights already, or cannot take on others."""
        return os.geteuid() != 0 or self.uid == 0


def owner_of_server(data_directory: Path, status: os.stat_result) -> Account:
    """Return the account of a server by who owns its data directory, as PostgreSQL itself demands it.

    `status` is that of the directory, links followed. One of root's is never a server's: whoever takes one for a
    server finds no postmaster in it, because that must run as the owner (`postmaster_lock.postmaster_pid`). Raises
    PermissionError when a link of somebody else's leads from the path to a directory of root's: that somebody would
    choose where root works with its own rights; and when an account's own mount says that it is another account's.
    """
    teller = teller_of(status)
    if os.geteuid() == 0 and teller not in (None, status.st_uid):
        told = f"is on a mount of user {teller}, which says that it belongs to user {status.st_uid}"
        raise PermissionError(errno.EACCES, told, str(data_directory))
    if status.st_uid == 0 and os.geteuid() == 0 and not _is_all_of_roots(data_directory):
        raise PermissionError(errno.EACCES, "leads to a directory of root's and not of a server's", str(data_directory))
    return Account.of_user(status.st_uid, status.st_gid)


def owner_of(folder: Path | None) -> str | None:
    """Return the account that owns a folder; None when it has no name or cannot be seen."""
    try:
        return pwd.getpwuid(folder.stat().st_uid).pw_name if folder is not None else None
    except (OSError, KeyError):
        return None


def _is_all_of_roots(path: Path) -> bool:
    """Tell whether each directory and link on the way belongs to root, and is on no mount of somebody else's."""
    mounted = {place for place, maker in fuse_makers().items() if maker != 0}
    return all(str(part) not in mounted and part.lstat().st_uid == 0 for part in ways(path.absolute()))


def become(account: Account) -> None:
    """Take on the account's identity for good: no way back, no new rights by exec, no look into our memory.

    To be called by root in a process that has nothing else to do as root. Raises OSError when the kernel refuses.
    """
    become_ids(account.uid, account.gid, account.groups)
