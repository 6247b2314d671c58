"""Which programs may be run with whose rights: nobody runs what a third account could have put there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.outside.way import doubt_about, name_of


def check_program(name: str, uid: int) -> str:
    """Return the absolute path of a program that user `uid` may run without doing another account's bidding.

    The file, all links on the way and all directories above must belong to root or to that user, and nobody else may
    write to them. This process's own interpreter is taken as it is. Raises EnvironmentUnsuitable.
    """
    found = name if "/" in name else shutil.which(name)
    if found is None or not Path(found).exists():
        raise EnvironmentUnsuitable(f'program "{name}" was not found', hint="Install it, or name it by its whole path.")
    path = str(Path(found).absolute())
    if path == sys.executable:
        return path
    doubt = doubt_about(Path(path), uid)
    if doubt is not None:
        raise EnvironmentUnsuitable(
            f'program "{path}" is not run as {"root" if uid == 0 else name_of(uid)}: {doubt}',
            detail="Whoever can change a program decides what is done with the rights of those who run it.",
            hint="Use one that root installed, or run pgdyno as the account that it belongs to.",
        )
    return path
