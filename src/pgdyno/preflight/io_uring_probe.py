"""Ask the kernel for an io_uring as the server's user would, and print the error number, 0 when it was granted.

Run as a program of its own: `python -I -S io_uring_probe.py UID GID`, with -1 for "as we are". It gives up its rights
first, because kernel.io_uring_disabled = 1 lets privileged users through.
"""

from __future__ import annotations

import ctypes
import os
import sys

IO_URING_SETUP = 425
"""The same number on every architecture that PostgreSQL's builds for Linux exist for."""
PARAMS_BYTES = 256
"""More than sizeof(struct io_uring_params), 120; the kernel wants it zeroed."""
ENTRIES = 64
"""io_max_concurrency is the size of each ring and at most 64 where it computes itself (18)."""


def main() -> None:
    """Become the user, ask once, print errno."""
    uid, gid = int(sys.argv[1]), int(sys.argv[2])
    libc = ctypes.CDLL(None, use_errno=True)
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    ring = libc.syscall(IO_URING_SETUP, ENTRIES, ctypes.byref(ctypes.create_string_buffer(PARAMS_BYTES)))
    sys.stdout.write(f"{ctypes.get_errno() if ring < 0 else 0}\n")


if __name__ == "__main__":
    main()
