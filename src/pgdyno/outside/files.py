"""Open and read files that somebody else wrote: only regular files, never more than asked for, never waiting.

A fifo or a terminal would be waited for, /dev/zero has no end, and a link may lead to either; so the file is opened
without blocking and looked at through its descriptor. Exceptions are pipes that the user's own shell made for
this process (`<(command)`, /dev/stdin), which are read to the same bound, and /dev/null, which is an empty file.
"""

from __future__ import annotations

import os
import stat
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path
from typing import BinaryIO

from pgdyno.errors import UsageError

MOST_BYTES = 16 << 20
"""No plan, project or configuration that people write is larger: it is the wrong file, and would fill the memory."""
MOST_OUTPUT_BYTES = 256 << 20
"""Outputs of tools that are read whole: a sadf file of a month has tens of megabytes. Logs are streamed instead."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_OWN_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_BLOCK = 1 << 20
_NULL = os.makedev(1, 3)
"""/dev/null, which people name for "nothing" (null(4))."""


def is_file(path: Path) -> bool:
    """Tell whether a path leads to a file, as far as this account can see: in a folder closed to it is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_there(path: Path) -> bool:
    """Tell whether a path that a user named leads to anything. Raises UsageError where that cannot be seen."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:  # as of a folder that is closed to this account
        hint = "Name a path that this account may look at."
        raise UsageError(f'"{path}" cannot be looked at', detail=error.strerror, hint=hint) from error
    return True


def open_file(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file, or a pipe of this process, for reading. Never waits.

    `follow` False refuses a symbolic link as the last part of the path. Raises OSError, also for what is neither.
    """
    try:
        descriptor = os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW))
    except ValueError as error:  # a NUL in its name
        raise OSError(None, "no file can have this name", str(path)) from error
    try:
        found = os.fstat(descriptor)
        mode = found.st_mode
        if stat.S_ISFIFO(mode) and str(path).startswith(_OWN_PIPES):
            os.set_blocking(descriptor, True)
        elif not stat.S_ISREG(mode) and not (stat.S_ISCHR(mode) and found.st_rdev == _NULL):
            raise OSError(None, f"It is {_kind(mode)}, not a regular file.", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, *, at_most: int = MOST_BYTES, follow: bool = True) -> bytes:
    """Return a file's content. Raises OSError as `open_file`, and ValueError when it is longer than `at_most` bytes."""
    with open_file(path, follow=follow) as file:
        return read_opened(file, at_most=at_most)


def read_opened(file: BinaryIO, *, at_most: int = MOST_BYTES) -> bytes:
    """Return the content of a file that `open_file` opened. Raises ValueError when it is longer than `at_most` bytes.

    For those who also need to know whose it is: by its descriptor, as its name may be another file's by now.
    """
    if os.fstat(file.fileno()).st_size > at_most:  # a sparse file costs nothing to make
        raise ValueError(_too_large(at_most))
    blocks, room = [], at_most + 1
    while room > 0 and (block := file.read(min(room, _BLOCK))):
        blocks.append(block)
        room -= len(block)
    if room <= 0:
        raise ValueError(_too_large(at_most))
    return b"".join(blocks)


def read_text(
    path: Path,
    noun: str = "file",
    *,
    hint: str | None = None,
    lenient: bool = False,
    at_most: int | None = None,
) -> str:
    """Return the text of a file that a user named. Raises UsageError that names it, also when it is no text.

    The error calls the file at `path` a `noun`, and carries `hint`, None for none. `lenient` is for outputs of other
    tools: in UTF-8 or, by its first bytes, in UTF-16, as shells of Windows write; what is neither becomes replacement
    characters. `at_most` in bytes, 16 MB when None, 256 MB when lenient.
    """
    most = at_most or (MOST_OUTPUT_BYTES if lenient else MOST_BYTES)
    try:
        return decode(read_bytes(path, at_most=most), lenient=lenient)
    except OSError as error:
        raise UsageError(f'{noun} "{path}" cannot be read', detail=error.strerror, hint=hint) from error
    except UnicodeDecodeError as error:
        detail = f"It is not text in UTF-8: {error.reason}."
        raise UsageError(f'{noun} "{path}" cannot be read', detail=detail, hint=hint) from error
    except ValueError as error:
        raise UsageError(f'{noun} "{path}" is {error}', hint=hint) from error


def decode(content: bytes, *, lenient: bool = False) -> str:
    """Return bytes as text without a byte order mark. Raises UnicodeDecodeError, also for a NUL, unless `lenient`."""
    if lenient:
        is_wide = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        return content.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")
    at = content.find(b"\0")
    if at >= 0:
        raise UnicodeDecodeError("utf-8", content[at : at + 1], 0, 1, "it holds a NUL byte")
    return content.decode("utf-8-sig")


def _too_large(at_most: int) -> str:
    return f"larger than {at_most >> 20} MB" if at_most >= 1 << 20 else f"larger than {at_most} bytes"


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a fifo", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
