"""What the loads of a study send: a window of a trace as a tape, made once, and the class of each statement."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import UsageError
from pgdyno.owner.temporary import temporary
from pgdyno.replay.captured import Asked, Taped, asked_of, write_tape
from pgdyno.trace.cut import CutOptions, cut_trace
from pgdyno.trace.fingerprints import without_values
from pgdyno.trace.gates import Order
from pgdyno.trace.parquet import connection, trace_source
from pgdyno.units import agreeing, plural
from pgdyno.workloads.script import Script
from pgdyno.workloads.template import APPLICATION_NAME

MOST_CLASSES = 40
"""Statements of the classes beyond them, by their time in the capture, are one class: the others."""
OTHERS = "others"
_LONGEST_NAME = 60


class OwnDescriptor:
    """A descriptor that is closed when nobody holds this any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return its number."""
        return self._descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class ReelWindow:
    """What of a trace is sent: seconds after its begin (`to_s` 0 for its end), and only what reads where so asked."""

    from_s: float
    to_s: float
    read_only: bool


@dataclass(frozen=True, slots=True, eq=False)
class Reel:
    """A tape as a file without a name, and the class of each statement by `session << 32 | seq`, in order."""

    tape: OwnDescriptor
    taped: Taped
    asked: Asked
    due_us: NDArray[np.int64]
    """Of the statements that are sent, in order."""
    keys: NDArray[np.int64]
    classes: NDArray[np.int16]
    scripts: tuple[Script, ...]
    """One a class; the text is the statement without its values."""

    def class_of(self, sessions: NDArray[np.int64], seqs: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return the class of each statement."""
        return self.classes[np.searchsorted(self.keys, sessions << 32 | seqs)]


def make_reel(trace: Path, window: ReelWindow, order: Order, folder: Path, tell: Callable[[str], None]) -> Reel:
    """Cut the window out of a trace and make its tape. Raises UsageError where the window holds nothing.

    `trace` is the trace's file, `order` what the tape keeps of the order between sessions, and `tell` is given progress
    messages. Sessions in more than one database are a UsageError too. What the trace holds of users is in the tape, a
    nameless file in `folder`, and in a private folder that is gone when this returns.
    """
    with temporary("reel") as work:
        if window != ReelWindow(0.0, 0.0, read_only=False):
            cut = work / "window.parquet"
            cut_trace(trace, cut, CutOptions(window.from_s, window.to_s or None, read_only=window.read_only))
            trace = cut
        asked = asked_of(trace)
        if len(asked.databases) != 1:
            raise UsageError(
                f"the trace has sessions in {plural(len(asked.databases), 'database')}: {', '.join(asked.databases)}",
                hint="A workload has one: cut it out by pgdyno trace cut --database.",
            )
        tell(f"making the tape of {trace.name}")
        path = work / "tape"
        taped = write_tape(
            trace, path, order, lambda rows: tell(f"{agreeing(rows, 'row', 'is', 'are')} on the tape"), APPLICATION_NAME
        )
        return _classed(trace, _nameless(path, folder), taped, asked)


def _nameless(path: Path, folder: Path) -> OwnDescriptor:
    """Return a copy of a file in another folder, where no name leads to it: a kill leaves nothing behind."""
    with tempfile.TemporaryFile(dir=folder) as copy, path.open("rb") as file:
        shutil.copyfileobj(file, copy)
        copy.flush()
        return OwnDescriptor(os.dup(copy.fileno()))


def _classed(trace: Path, tape: OwnDescriptor, taped: Taped, asked: Asked) -> Reel:
    with connection() as db, trace_source(trace, db) as source:
        sent = f"FROM {source} WHERE sql IS NOT NULL AND refused IS NULL"
        known = "coalesce(fingerprint, 'does not parse')"
        kinds = db.execute(
            f"SELECT {known}, any_value(sql) {sent} GROUP BY 1 ORDER BY sum(coalesce(end_us - due_us, 0)) DESC, 1"
        ).fetchall()
        numbers = {str(name): min(number, MOST_CLASSES) for number, (name, _) in enumerate(kinds)}
        db.execute("CREATE TABLE numbers (name VARCHAR, number SMALLINT)")
        db.execute("INSERT INTO numbers SELECT unnest(?::VARCHAR[]), unnest(?::SMALLINT[])",
                   [list(numbers), list(numbers.values())])  # fmt: skip
        found = db.execute(
            f"""SELECT session::BIGINT << 32 | seq AS place, due_us, number
                FROM (SELECT session, seq, due_us, {known} AS name {sent}) JOIN numbers USING (name) ORDER BY 1"""
        ).fetchnumpy()
    texts = [str(text) for _, text in kinds[:MOST_CLASSES]]
    scripts = [Script(_name(number, text), text=without_values(text)) for number, text in enumerate(texts, start=1)]
    if len(kinds) > MOST_CLASSES:
        scripts.append(Script(OTHERS, text=""))
    due = np.sort(np.asarray(found["due_us"], np.int64))
    return Reel(
        tape, taped, asked, due, np.asarray(found["place"], np.int64), np.asarray(found["number"], np.int16),
        tuple(scripts),
    )  # fmt: skip


def _name(number: int, text: str) -> str:
    words = " ".join(without_values(text).split())
    plain = "".join(one if one.isalnum() or one in "_.*=<>$(), " else " " for one in words)
    return f"{number} {plain[:_LONGEST_NAME].strip()}"
