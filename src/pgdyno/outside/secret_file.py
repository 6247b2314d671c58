"""A file with a token: made when it is missing, and read only where nobody else can have read or written it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.outside.mounts import teller_of

MOST_BYTES = 16 << 10


def read_secret(path: Path, flag: str, fresh: Callable[[], str]) -> str:
    """Return the content of a file that `flag` names; write what `fresh` returns, for its owner alone, where none is.

    Raises UsageError for a file that others own or may read, EnvironmentUnsuitable for one that cannot be used.
    """
    try:
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(fresh())
        # What is opened is what is judged and read. A pipe of others would be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status, content = os.fstat(file.fileno()), b""
            if stat.S_ISREG(status.st_mode):
                content = file.read(MOST_BYTES)
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'{flag} "{path}" cannot be used', detail=str(error), hint="Name a file in a folder of your own."
        ) from error
    is_ours = status.st_uid in (0, os.geteuid()) and teller_of(status) in (None, os.geteuid())
    if not stat.S_ISREG(status.st_mode) or not is_ours:
        raise UsageError(
            f'{flag} "{path}" is not a file of yours', hint="Name one that is yours, in a folder of your own."
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f'{flag} "{path}" may be read by others', hint=f"Run chmod 600 {path}")
    return content.decode("latin-1")
