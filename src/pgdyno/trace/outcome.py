"""Records of engines as columns of an outcome. Pure but for reading the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pgdyno.trace.engine.records import CONNECTION_FAILURE, RECORD, Skip
from pgdyno.trace.schema import AnswerClass

Records: TypeAlias = NDArray[np.void]
"""One element a record, with the fields of `DTYPE`."""
_TIMES = ("due_us", "sent_us", "first_us", "done_us", "injector_us", "gate_us", "server_us", "rows", "bytes")
DTYPE = np.dtype(
    [
        ("session", "<u4"),
        ("seq", "<u4"),
        *((name, "<i8") for name in _TIMES),
        ("sqlstate", "S5"),
        ("expected", "S5"),
        ("skip", "u1"),
    ]
)
"""`trace.engine.records.RECORD` in NumPy's words."""
assert DTYPE.itemsize == RECORD.size
SKIPPED = {
    Skip.SENT: None,
    Skip.REFUSED: "refused by the trace",
    Skip.NOT_CONNECTED: "its session could not be opened",
    Skip.CONNECTION_LOST: "its session was lost before",
    Skip.RUN_ENDED: "the run ended before its answer",
    Skip.PIPELINE_FAILED: "its pipeline had failed",
}


def read_records(path: Path, start: int = 0, most: int | None = None) -> Records:
    """Return the whole records of a file from record `start` on, mapped from disk: one that a kill cut is left out."""
    whole = max((path.stat().st_size // DTYPE.itemsize) - start, 0)
    count = whole if most is None else min(whole, most)
    if not count:
        return np.empty(0, DTYPE)
    return np.memmap(path, DTYPE, "r", offset=start * DTYPE.itemsize, shape=(count,))


def ended_statements(records: Records) -> NDArray[np.bool_]:
    """Return which records are of statements that were sent and ended, by an answer or with their session.

    Of connects and disconnects no bytes are counted, nor is a session lost.
    """
    is_statement = (records["bytes"] > 0) | (records["sqlstate"] == CONNECTION_FAILURE)
    return np.asarray((records["skip"] == Skip.SENT) & (records["done_us"] >= 0) & is_statement)


def classes(records: Records) -> NDArray[Any]:
    """Return the `AnswerClass` of each record."""
    came, expected = records["sqlstate"], records["expected"]
    return np.select(
        [records["skip"] != Skip.SENT, came == expected, expected == b"", came == b""],
        [AnswerClass.SKIPPED, np.where(came == b"", AnswerClass.SUCCESS, AnswerClass.EXPECTED), AnswerClass.NEW,
         AnswerClass.MISSING],
        AnswerClass.CHANGED,
    )  # fmt: skip
