"""What a live study has measured so far, in the folder of its run, so that a killed one can go on.

The reference fixes the weights before the first switch, and pairs are judged statement by statement: both are kept as
numbers, without texts. So is what stopped B: it cripples the load no second time; and what a person approved, which
holds for the study and not for a process of it. What is read back is checked as a file of others is: its shapes, and
nothing that runs.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import UsageError
from pgdyno.model.guard import Breach
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.study import Study
from pgdyno.outputs import write_output
from pgdyno.probes.statements import StatementKey
from pgdyno.server import places
from pgdyno.stats.body_index import PeriodCounts, ServerUse, StatementReference
from pgdyno.studies.live.windows import RestartsMade

Columns = dict[str, NDArray[np.generic]]
_REFERENCE, _PAIR, _STOPS, _RESTARTS = "reference.npz", "pair-{:04}.npz", "stops.json", "restarts.json"
_APPROVED = "approved.json"


@dataclass(frozen=True, slots=True)
class RecordedPair:
    """A pair that was judged: the arm that came first, and both periods, which were so long with their wash-out."""

    first: str
    a: PeriodCounts
    b: PeriodCounts
    period_s: float
    wash_s: float


@dataclass(frozen=True, slots=True)
class RecordedReference:
    """The reference of a study, its statements in order, the length of its periods, and when it ended (Unix time)."""

    keys: tuple[StatementKey, ...]
    reference: StatementReference
    period_s: float
    at: float


@dataclass(frozen=True, slots=True)
class Approved:
    """The plan of two arms was approved, with at most so many restarts in all; None where reloads do."""

    restarts: int | None = None


@dataclass(slots=True)
class Recording:
    """The files of one study in `folder`, which is private."""

    folder: Path
    pairs: int = 0

    def keep_reference(self, found: RecordedReference) -> None:
        """Keep the reference; what an earlier attempt at it left goes."""
        self.forget()
        for name in (_STOPS, _RESTARTS, _APPROVED):
            (self.folder / name).unlink(missing_ok=True)
        keys, reference = found.keys, found.reference
        self._write(_REFERENCE, {
            "databases": np.array([key.database for key in keys], dtype=np.int64),
            "roles": np.array([key.role for key in keys], dtype=np.int64),
            "queryids": np.array([key.queryid for key in keys], dtype=np.int64),
            "toplevel": np.array([key.toplevel for key in keys], dtype=np.bool_),
            "calls": reference.calls, "time_ms": reference.time_ms, "m2": reference.m2,
            "numbers": np.array([reference.seconds, found.period_s, found.at]),
        })  # fmt: skip

    def keep_pair(self, pair: RecordedPair) -> None:
        """Keep one more pair."""
        columns: Columns = {"first": np.array([pair.first == "B"]), "seconds": np.array([pair.period_s, pair.wash_s])}
        for arm, period in (("a", pair.a), ("b", pair.b)):
            columns |= {f"{arm}_calls": period.calls, f"{arm}_time": period.time_ms, f"{arm}_new": _one(period.new_ms)}
            if period.first is not None:
                columns |= {f"{arm}_half_calls": period.first.calls, f"{arm}_half_time": period.first.time_ms}
            if period.use is not None:
                columns[f"{arm}_use"] = np.array([np.nan if value is None else value for value in _use(period.use)])
        self._write(_PAIR.format(self.pairs), columns)
        self.pairs += 1

    def keep_stop(self, breach: Breach) -> None:
        """Keep one more stop of B by a guard."""
        write_output(self.folder / _STOPS, json.dumps([plain(one) for one in (*self.stops(), breach)]))

    def stops(self) -> tuple[Breach, ...]:
        """Return the stops of B by guards. Raises UsageError where the file is not one of ours."""
        path = self.folder / _STOPS
        try:
            rows = json.loads(path.read_text()) if path.exists() else []
            return tuple(shaped(Breach, one, "a stop") for one in rows)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise _foreign(path) from error

    def keep_approved(self, approved: Approved) -> None:
        """Keep that the plan was approved."""
        write_output(self.folder / _APPROVED, json.dumps(plain(approved)))

    def approved(self) -> Approved | None:
        """Return what was approved, None for nothing. Raises UsageError where the file is not one of ours."""
        path = self.folder / _APPROVED
        try:
            return shaped(Approved, json.loads(path.read_text()), "an approval") if path.exists() else None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise _foreign(path) from error

    def keep_restarts(self, made: RestartsMade) -> None:
        """Keep how often the server was restarted so far."""
        write_output(self.folder / _RESTARTS, json.dumps(plain(made)))

    def restarts(self) -> RestartsMade:
        """Return how often the server was restarted. Raises UsageError where the file is not one of ours."""
        path = self.folder / _RESTARTS
        try:
            return shaped(RestartsMade, json.loads(path.read_text()), "restarts") if path.exists() else RestartsMade()
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise _foreign(path) from error

    def forget(self) -> None:
        """Drop the pairs: periods of another length do not belong to them."""
        for path in self.folder.glob(_PAIR.replace("{:04}", "*")):
            path.unlink()
        self.pairs = 0

    def reference(self) -> RecordedReference:
        """Return the reference. Raises UsageError where none was kept, or the file is not one of ours."""
        path = self.folder / _REFERENCE
        if not path.is_file():
            raise UsageError(
                f'the reference of "{self.folder.name}" was not finished, so that there is nothing to continue from',
                hint="Start a new study, without --resume.",
            )
        found = self._read(path)
        names = ("databases", "roles", "queryids", "toplevel")
        sizes = {found[name].shape for name in (*names, "calls", "time_ms", "m2")}
        if len(sizes) != 1 or found["numbers"].shape != (3,):
            raise _foreign(path)
        seconds, period_s, at = (float(one) for one in found["numbers"])
        rows = zip(*(found[name].tolist() for name in names), strict=True)
        keys = tuple(StatementKey(int(a), int(b), int(c), bool(d)) for a, b, c, d in rows)
        calls, time_ms, m2 = (found[name].astype(np.float64) for name in ("calls", "time_ms", "m2"))
        return RecordedReference(keys, StatementReference(seconds, calls, time_ms, m2), period_s, at)

    def recorded(self, size: int) -> list[RecordedPair]:
        """Return the pairs in their order; each has a figure for each of `size` statements."""
        found = []
        for path in sorted(self.folder.glob(_PAIR.replace("{:04}", "*"))):
            columns = self._read(path)
            if any(columns[f"{arm}_{what}"].shape != (size,) for arm in "ab" for what in ("calls", "time")):
                raise _foreign(path)
            if columns["seconds"].shape != (2,):
                raise _foreign(path)
            a, b = (_period(columns, arm) for arm in "ab")
            first = "B" if bool(columns["first"][0]) else "A"
            found.append(RecordedPair(first, a, b, *map(float, columns["seconds"])))
        self.pairs = len(found)
        return found

    def _write(self, name: str, columns: Columns) -> None:
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **columns)
        write_output(self.folder / name, content.getvalue())

    def _read(self, path: Path) -> Columns:
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                return _Known(path, {name: np.asarray(found[name]) for name in found.files})
        except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise _foreign(path) from error


def is_approved(study: Study) -> bool:
    """Tell whether the plan of a study of two arms was approved before it was ended. Errors as `Recording.approved`."""
    return Recording(places.state_dir() / "runs" / study.id).approved() is not None


class _Known(Columns):
    """The columns of a file; one that is missing is the file's fault."""

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(columns)
        self._path = path

    def __missing__(self, name: str) -> NDArray[np.generic]:
        raise _foreign(self._path)


def _period(columns: Columns, arm: str) -> PeriodCounts:
    def column(name: str) -> NDArray[np.float64]:
        return columns[f"{arm}_{name}"].astype(np.float64)

    first = PeriodCounts(column("half_calls"), column("half_time")) if f"{arm}_half_calls" in columns else None
    use = None
    if f"{arm}_use" in columns:
        known = [None if np.isnan(value) else float(value) for value in column("use").reshape(-1)]
        use = ServerUse(*known[: len(fields(ServerUse))])
    return PeriodCounts(column("calls"), column("time"), float(column("new")[0]), first, use)


def _use(use: ServerUse) -> Sequence[float | None]:
    return tuple(getattr(use, one.name) for one in fields(ServerUse))


def _one(value: float) -> NDArray[np.float64]:
    return np.array([value])


def _foreign(path: Path) -> UsageError:
    return UsageError(f'"{path}" is damaged, or not of this study', hint="Start a new study, without --resume.")
