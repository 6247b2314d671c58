"""Bytes that are added at the end and read anywhere: a few stay in memory, more go to a file without a name."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

IN_MEMORY = 4 << 20


class Spool:
    """Gives its room back when it is closed or nobody holds it any more. `folder` takes the file, None for /tmp."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._memory = bytearray()
        self._file: IO[bytes] | None = None

    def append(self, data: bytes | bytearray) -> None:
        """Add bytes. Raises OSError when the disk does not take them; nothing more may be added then.

        Another thread may read meanwhile.
        """
        file = self._file
        if file is None:
            self._memory += data
            if len(self._memory) <= IN_MEMORY:
                return
            data, file = self._memory, tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by `close`
        file.write(data)
        file.flush()  # a full disk is told here, and not to whoever reads later
        if self._file is None:
            self._file = file
            self._memory = bytearray()

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset`. Raises OSError when the disk does not give them."""
        memory, file = self._memory, self._file  # in this order: they move from the one to the other
        return bytes(memory[offset : offset + size]) if file is None else os.pread(file.fileno(), size, offset)

    def close(self) -> None:
        """Give the room back."""
        if self._file is not None:
            with suppress(OSError):  # what a full disk did not take is tried once more
                self._file.close()
        self._memory = bytearray()

    def __del__(self) -> None:
        self.close()
