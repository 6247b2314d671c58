"""Have the C library keep what is freed, for what is asked for again a second later."""

from __future__ import annotations

import ctypes

KEPT_BYTES = 16 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library


def keep_freed_memory() -> None:
    """Give freed blocks of up to `KEPT_BYTES`, and so much of the heap's end, back to nobody; may be called again.

    A second of a fast load's log is parsed in some ten megabytes. Given back each time, they come again as a thousand
    page faults: a tenth of what a run costs. Nothing happens where the C library is another than GNU's.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
