"""The folders of one rehearsal, which nobody else may own or put something else in the place of."""

from __future__ import annotations

import os
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.outside.way import doubt_about_parts, name_of, ways
from pgdyno.owner.account import Account
from pgdyno.owner.runner import LocalRunner


def require_own_way(folder: Path) -> None:
    """Raise EnvironmentUnsuitable where another account could put something else on the way to a folder.

    What does not exist yet is made by us. Root goes no way that a group can change either.
    """
    doubt = doubt_about_parts(ways(folder), os.geteuid(), may_be_shared=True, may_be_missing=True)
    if doubt is not None:
        raise EnvironmentUnsuitable(
            f'folder "{folder}" of the plan is not used: {doubt}',
            detail="Whoever can change it decides what is restored, with the rights of the target's role.",
            hint="Name a folder below one that belongs to root or to you alone.",
        )


def require_own(folder: Path, account: Account | None) -> None:
    """Raise EnvironmentUnsuitable where a folder is not the account's alone, None for ours."""
    status = folder.lstat()
    own = os.geteuid() if account is None else account.uid
    if not stat.S_ISDIR(status.st_mode):
        doubt, hint = "is no folder", "Name another folder by transfer_to."
    elif status.st_uid != own:
        doubt = f"belongs to {name_of(status.st_uid)} and not to {name_of(own)}, whose programs copy to it"
        hint = "Name another folder by transfer_to."
    elif opened := status.st_mode & 0o077:
        may = "write to" if opened & 0o022 else "read"
        doubt = f"is open to others: with mode {stat.S_IMODE(status.st_mode):04o} they may {may} it"
        hint = f"chmod 700 {shlex.quote(str(folder))}, or name another folder by transfer_to."
    else:
        return
    raise EnvironmentUnsuitable(f'"{folder}" already exists and {doubt}', hint=hint)


def require_reach(folder: Path, account: Account | None, *, writes: bool) -> None:
    """Raise EnvironmentUnsuitable where the account, None for ours, cannot enter a folder, or not make it or write."""
    user = None if account is None else account.name
    near = next(one for one in (folder, *folder.parents) if one == one.parent or one.exists())
    argv = ["test", "-d", str(near), "-a", "-x", str(near), *(("-a", "-w", str(near)) if writes else ())]
    if LocalRunner().run(argv, user=user, cwd=Path("/"), check=False).returncode != 0:
        name = user or str(Account.of_user(os.geteuid()).name)
        raise EnvironmentUnsuitable(
            f'account "{name}" cannot {"write in" if writes else "enter"} "{near}", where "{folder}" of the plan is',
            detail="Programs of the load run as that account.",
            hint=f"Make it, and: chown {name} {folder}" if writes else f"chmod a+x {near}, and the folders above it.",
        )


def make_folder(parent: Path, name: str, account: Account | None) -> Path:
    """Make the folder of a rehearsal, whose owner is the account; that of a killed one is there already."""
    require_own_way(parent)
    parent.mkdir(parents=True, exist_ok=True)
    require_own_way(parent)  # somebody may have been faster than we were
    folder = parent / name
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        own = os.geteuid() if account is None else account.uid
        if os.fstat(descriptor).st_uid not in (os.geteuid(), own):
            raise EnvironmentUnsuitable(f'folder "{folder}" belongs to somebody else')
        if account is not None and not account.is_ours:
            os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)
    return folder
