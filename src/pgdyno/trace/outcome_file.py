"""Outcomes on disk: a folder with what is known of the run, and Parquet files that grow while engines answer.

Engines append records to plain files; every few seconds what has come is written as another part. After a kill, what
no part has yet is still in those files: `recover` makes a part of it, and the folder says that the run did not end.
"""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.replay_comparison import ReplayPause
from pgdyno.model.shapes import plain
from pgdyno.outputs import new_folder, open_new, write_output
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.outcome import SKIPPED, Records, classes, read_records
from pgdyno.trace.parquet import connection, outcome_source, read_facts_file, write_parquet
from pgdyno.trace.schema import OUTCOME

OUTCOME_VERSION = 1
FACTS = "outcome.json"
KILLED = "killed"
TAPE = "tape"
"""What is sent, while it is."""
_RECORDS = "engine-{}.records"
_MOST_FACTS = 1 << 20
_ONE_PART = 200_000
"""Records; a part takes about as much memory as it has records x 400 bytes."""
_LOOKED_AT = 20_000
"""Records that are given at once; who judges them takes a few hundred bytes for each."""


@dataclass(frozen=True, slots=True)
class OutcomeFacts:
    """What stands beside the parts of an outcome. No password is in it."""

    version: int
    trace: str
    """Path of the trace when it was replayed."""
    trace_digest: str
    target: str
    server_version: str
    system_identifier: str
    engine: str
    speed: float
    clock: str
    order: str
    processes: int
    began_at: float
    """Seconds since the epoch."""
    error_limit_percent: float
    """Fixed before the run."""
    study: str = ""
    """Of the run: its record in the store is from before the first statement. Empty in an outcome of before."""
    ended: str = ""
    """`complete`, or why it ended before; empty while it runs, and `KILLED` once somebody looks at one that was."""
    owner: ProcessIdentity | None = None
    """Who writes the parts; None where that is not known."""
    tally: RunTally = field(default_factory=RunTally)
    pauses: tuple[ReplayPause, ...] = ()
    """When nothing new was begun, as somebody paused the run."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds of each step: prepare, inject, analyse."""


class OutcomeWriter:
    """Makes a folder and fills it; `files` are what engines append to."""

    def __init__(self, folder: Path, facts: OutcomeFacts) -> None:
        new_folder(folder)
        self.folder, self.facts = folder, facts
        self.files = [folder / _RECORDS.format(number) for number in range(facts.processes)]
        for file in self.files:
            open_new(file).close()
        self._taken = [0] * facts.processes
        self._parts = 0
        self.update(replace(facts, owner=ProcessIdentity.own()))

    def update(self, facts: OutcomeFacts) -> None:
        """Replace what is known of the run."""
        self.facts = facts
        write_output(self.folder / FACTS, json.dumps(plain(facts), indent=1) + "\n")

    def take(self, at_least: int = 1) -> None:
        """Write what the engines have appended since the last time as a part, if there is so much."""
        for number, file in enumerate(self.files):
            while len(records := read_records(file, self._taken[number], _ONE_PART)) >= at_least:
                write_part(self.folder / f"part-{self._parts:05d}.parquet", records)
                self._taken[number] += len(records)
                self._parts += 1

    def records(self) -> Iterator[Records]:
        """Give all records of the run so far, file by file and some at a time, mapped from disk."""
        for file in self.files:
            start = 0
            while len(records := read_records(file, start, _LOOKED_AT)):
                yield records
                start += len(records)

    def finish(self, ended: str, tally: RunTally, phases: dict[str, float]) -> None:
        """Write the last part and how the run ended, and remove the engines' files."""
        self.take()
        self.update(replace(self.facts, ended=ended, tally=tally, pauses=pauses_of(tally), phases=phases))
        for file in self.files:
            file.unlink()


def pauses_of(tally: RunTally) -> tuple[ReplayPause, ...]:
    """Return the pauses of a run that has ended."""
    return tuple(ReplayPause(begin / 1e6, end / 1e6, (end - begin) / 1e6, count) for begin, end, count in tally.pauses)


def write_part(path: Path, records: Records) -> None:
    """Write records as rows of an outcome."""
    given = {name: np.ascontiguousarray(records[name]) for name in records.dtype.names or ()}
    given |= {name: records[name].astype("U5").astype(object) for name in ("sqlstate", "expected")}
    given["answer"] = classes(records).astype(object)
    reasons = " ".join(f"WHEN {int(skip)} THEN '{why}'" for skip, why in SKIPPED.items() if why)
    computed = {
        "lag_us": "injector_us + gate_us + server_us",
        "sqlstate": "nullif(sqlstate, '')",
        "skipped": f"CASE skip {reasons} END",
    }
    never = {name: f"nullif({name}, -1)" for name in ("sent_us", "first_us", "done_us", "rows")}
    columns = ", ".join(
        f'({(never | computed).get(one.name, one.name)})::{one.type} AS "{one.name}"' for one in OUTCOME
    )
    with connection(of="outcome") as db:
        db.register("given", given)
        write_parquet(db, f"SELECT {columns} FROM given", path)


def recover(folder: Path) -> None:
    """Make parts of what engines left in a folder whose run was killed, and say so; any other one stays as it is.

    A record that is in a part already is not written again, even where an earlier recovery was killed itself. Memory
    grows with the sessions alone.
    """
    left = sorted(folder.glob(_RECORDS.format("*")))
    if not left:
        return
    facts = read_facts(folder)
    if facts.owner is None or facts.owner.is_alive():
        return
    for file in left:
        if not stat.S_ISREG(file.lstat().st_mode):
            raise UsageError(f'"{file}" is not a regular file', hint="Take it away: no engine of pgdyno made it.")
    written, names = _Written.of(folder), (folder / f"part-recovered-{number}.parquet" for number in count())
    for file in left:
        start = 0
        while len(records := read_records(file, start, _ONE_PART)):
            fresh = records[~written.has(records)]
            if len(fresh):
                write_part(next(name for name in names if not name.exists()), fresh)
            start += len(records)
        file.unlink()
    (folder / TAPE).unlink(missing_ok=True)
    for work in folder.glob(f".{TAPE}.*.work"):  # of one that was killed while it made the tape
        shutil.rmtree(work, ignore_errors=True)
    write_output(folder / FACTS, json.dumps(plain(replace(facts, ended=facts.ended or KILLED)), indent=1) + "\n")


@dataclass(frozen=True, slots=True)
class _Written:
    """What parts have: of each session up to which statement, as engines record those of a session in its order."""

    sessions: NDArray[np.int64]
    seqs: NDArray[np.int64]

    @classmethod
    def of(cls, folder: Path) -> _Written:
        """Return what the parts in a folder have."""
        last = dict[int, int]()
        with connection() as db:
            for part in sorted(folder.glob("part-*.parquet")):
                with outcome_source(part, db) as source:
                    found = db.execute(f"SELECT session, max(seq) FROM {source} GROUP BY session").fetchall()
                last.update((session, max(seq, last.get(session, -1))) for session, seq in found)
        sessions = np.array(sorted(last), np.int64)
        return cls(sessions, np.array([last[int(one)] for one in sessions], np.int64))

    def has(self, records: Records) -> NDArray[np.bool_]:
        """Return which records are in a part."""
        if not self.sessions.size:
            return np.zeros(len(records), np.bool_)
        session = records["session"].astype(np.int64)
        place = np.minimum(np.searchsorted(self.sessions, session), self.sessions.size - 1)
        return np.asarray((self.sessions[place] == session) & (records["seq"] <= self.seqs[place]))


def read_facts(folder: Path) -> OutcomeFacts:
    """Return what is known of a run. Raises UsageError where the folder is no outcome, or one of a newer version."""
    hint = "An outcome is a folder that pgdyno replay --output has made."
    what = f'outcome "{folder}"'
    return read_facts_file(OutcomeFacts, folder / FACTS, what, OUTCOME_VERSION, at_most=_MOST_FACTS, hint=hint)
