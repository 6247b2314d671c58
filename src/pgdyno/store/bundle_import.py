"""Read a bundle into a store: one transaction, so that a damaged or refused bundle leaves nothing behind."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from sqlalchemy import BigInteger, Column, Double, Integer, LargeBinary, Table, Text, insert, select
from sqlalchemy.engine import Connection

from pgdyno.errors import StoreError, UsageError
from pgdyno.model.study import StudyState
from pgdyno.outside.documents import load_json
from pgdyno.store import codec
from pgdyno.store.bundle_format import Bundle, BundleMember, damaged
from pgdyno.store.catalogue import Store, read_trials
from pgdyno.store.schema import REVISION, RUN_TABLES, STUDY, TRIAL, TRIAL_FACTOR, TRIAL_SETTING
from pgdyno.units import plural

IMPORTED = "imported"
"""Among a study's options: where it was measured, when it came here, and which number each of its trials had there."""
BATCH = 1000
_TABLES: dict[str, Table] = {
    table.name: table for table in (STUDY, TRIAL, TRIAL_SETTING, TRIAL_FACTOR, *RUN_TABLES.values())
}
_RUN_NAMES = frozenset({"run", "a_run", "b_run", "trial", "repeats", "qualified"})
_RUN_LISTS = frozenset({"runs", "trials", "all", "baseline_runs"})
"""Where results name trials: a number under the one, a list of numbers under the other."""
_MOST_WHOLE = 2**63


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of one study: its id, how many trials it has, and whether it was there already, with the same rows."""

    study: str
    trials: int
    unchanged: bool


def import_bundle(store: Store, bundle: Bundle, *, now: float, digest_here: Callable[[str], str]) -> list[Imported]:
    """Read every study of an open bundle into the store and return what came of each.

    Ids of studies stay; trials get new numbers, which the results of the study follow. A study that is there with the
    same contents is left as it is. The others keep `now`, in seconds since the epoch, as the time of their import.
    Raises UsageError, and changes nothing, when one is there with others (`digest_here` computes the digest of a study
    of this store by its id), or when the bundle is damaged.
    """
    bundle.verify()
    known = {study.id: study.options for study in store.studies()}
    there = {entry.id for entry in bundle.manifest.studies if entry.id in known}
    for entry in bundle.manifest.studies:
        if entry.id in there and entry.digest not in (_came_as(known[entry.id]), digest_here(entry.id)):
            raise UsageError(
                f'study "{entry.id}" is in the store already, with other contents',
                detail="It continued after that, or the bundle is from another time.",
                hint="Import into another store with --store PATH.",
            )
    with store.write() as connection:
        return [
            Imported(entry.id, entry.trials, unchanged=True)
            if entry.id in there
            else Imported(entry.id, _Reader(bundle, connection, entry.id).read(now), unchanged=False)
            for entry in bundle.manifest.studies
        ]


def _came_as(options: Mapping[str, object]) -> object:
    mark = options.get(IMPORTED)
    return mark.get("digest") if isinstance(mark, Mapping) else None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one study inside a transaction."""

    bundle: Bundle
    connection: Connection
    study: str

    def read(self, now: float) -> int:
        members = self.bundle.manifest.of(self.study)
        unknown = sorted(set(members) - set(_TABLES))
        if unknown or "study" not in members:
            raise self._newer(f"table {unknown[0]}" if unknown else "no table study")
        ids: dict[int, int] = {}
        (study,) = self._rows(members["study"], most=1)
        if study["id"] != self.study:
            raise damaged(self.bundle.path, f"{self.study} holds study {study['id']!r}")
        study["state"] = _settled(str(study["state"]))
        self.connection.execute(insert(STUDY), study)
        if "trial" in members:
            ids = self._trials(members["trial"])
        for name in [name for name in _TABLES if name in members and name not in ("study", "trial")]:
            self._copy(members[name], ids)
        self._finish(study, ids, now)
        return len(ids)

    def _trials(self, member: BundleMember) -> dict[int, int]:
        ids: dict[int, int] = {}
        waiting: dict[int, dict[str, object]] = {}
        for row in self._rows(member):
            old, repeated = row.pop("id"), row["repeats"]
            if row["study_id"] != self.study or not isinstance(old, int) or old in ids or old in waiting:
                raise damaged(self.bundle.path, f"trial {old!r} does not belong to study {self.study}")
            if repeated in waiting or len(waiting) == BATCH:
                self._number(waiting, ids)
            # A trial that was running, and so left out, may have been repeated.
            row["repeats"] = ids.get(repeated) if isinstance(repeated, int) else None
            waiting[old] = row
        self._number(waiting, ids)
        return ids

    def _number(self, waiting: dict[int, dict[str, object]], ids: dict[int, int]) -> None:
        """Insert the trials that wait, and note the number that each of them got here."""
        if waiting:
            self.connection.execute(insert(TRIAL), list(waiting.values()))
            # One session draws ascending numbers, and nobody else writes trials of a study that is not there yet.
            drawn = select(TRIAL.c.id).where(TRIAL.c.study_id == self.study, TRIAL.c.id > max(ids.values(), default=0))
            ids.update(zip(waiting, self.connection.execute(drawn.order_by(TRIAL.c.id)).scalars(), strict=True))
            waiting.clear()

    def _insert(self, table: Table, rows: Iterable[dict[str, object]]) -> None:
        """Insert the rows in batches: neither one statement a row nor all of them in memory."""
        left = iter(rows)
        while batch := list(islice(left, BATCH)):
            self.connection.execute(insert(table), batch)

    def _copy(self, member: BundleMember, ids: Mapping[int, int]) -> None:
        table = _TABLES[member.table]
        key = "trial_id" if "trial_id" in table.c else "run_id"
        self._insert(table, self._followed(member, key, ids))

    def _followed(self, member: BundleMember, key: str, ids: Mapping[int, int]) -> Iterator[dict[str, object]]:
        for row in self._rows(member):
            old = row[key]
            if not isinstance(old, int) or old not in ids:
                raise damaged(self.bundle.path, f"{member.name} has a row of trial {old!r}, which is not in it")
            yield {**row, key: ids[old]}

    def _finish(self, row: Mapping[str, object], ids: Mapping[int, int], now: float) -> None:
        """Mark the study, let its result name the new trials, and see that study and trials can be read."""
        entry = next(entry for entry in self.bundle.manifest.studies if entry.id == self.study)
        try:
            study = codec.study_from_row(row)
            mark = {
                "environment": study.environment,
                "at": now,
                "bundle": self.bundle.seal,
                "digest": entry.digest,
                "pgdyno": self.bundle.manifest.pgdyno,
                "trials": {str(old): new for old, new in ids.items()},
            }
            values = codec.study_to_row(replace(study, options={**study.options, IMPORTED: mark}))
            result = values["result"]
            if isinstance(result, dict):
                values["result"] = _renumbered(result, ids)
                codec.result_from_json(study.kind, values["result"])
            self.connection.execute(
                STUDY.update()
                .where(STUDY.c.id == self.study)
                .values(options=values["options"], result=values["result"])
            )
            read_trials(self.connection, TRIAL.c.study_id == self.study)
        except (ValueError, StoreError) as error:
            raise damaged(self.bundle.path, f"study {self.study} cannot be read: {error}") from error

    def _rows(self, member: BundleMember, most: int | None = None) -> Iterator[dict[str, object]]:
        table = _TABLES[member.table]
        strangers = sorted(set(member.columns) - set(table.c.keys()))
        if strangers or len(set(member.columns)) != len(member.columns):
            raise self._newer(f"column {(strangers or ['twice'])[0]} of table {table.name}")
        absent = [column for column in table.c if column.name not in member.columns]
        missing = next((column.name for column in absent if not column.nullable), None)
        if missing is not None or (most is not None and member.rows != most):
            raise damaged(self.bundle.path, f"{member.name} has no column {missing}, or {plural(member.rows, 'row')}")
        columns = [table.c[name] for name in member.columns]
        for line in self.bundle.lines(member):
            try:
                cells = load_json(line, finite=False)
                if not isinstance(cells, list) or len(cells) != len(columns):
                    raise ValueError(f"a row does not have {plural(len(columns), 'cell')}")
                values = {column.name: _cell(column, cell) for column, cell in zip(columns, cells, strict=True)}
            except (ValueError, binascii.Error) as error:
                raise damaged(self.bundle.path, f"{member.name}: {error}") from error
            yield {column.name: None for column in absent} | values

    def _newer(self, what: str) -> UsageError:
        manifest = self.bundle.manifest
        return UsageError(
            f'bundle "{self.bundle.path}" has {what}, which this pgdyno does not know',
            detail=f"It was written by pgdyno {manifest.pgdyno} at revision {manifest.revision}; here is {REVISION}.",
            hint="Import it with that version or a newer one.",
        )


def _cell(column: Column[object], value: object) -> object:
    """Return the value of a cell for its column. Raises ValueError when it is of another type."""
    kind = column.type
    if value is None:
        if column.nullable:
            return None
    elif isinstance(kind, Double):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(kind, BigInteger | Integer):
        if isinstance(value, int) and not isinstance(value, bool) and -_MOST_WHOLE <= value < _MOST_WHOLE:
            return value
    elif isinstance(kind, LargeBinary):
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    elif isinstance(kind, Text):
        if isinstance(value, str) and "\0" not in value:
            return value
    elif isinstance(value, dict | list):
        return value
    raise ValueError(f"{value!r:.60} is not a value of column {column.name}")


def _settled(state: str) -> str:
    """Return the state of a study that nobody goes on with here."""
    return StudyState.INTERRUPTED.value if state == StudyState.RUNNING.value else state


def _renumbered(value: dict[str, object], ids: Mapping[int, int]) -> dict[str, object]:
    """Return a result whose trials have their new numbers; a trial that is not here keeps none."""
    return {name: _follow(name, item, ids) for name, item in value.items()}


def _follow(name: str, item: object, ids: Mapping[int, int]) -> object:
    if name in _RUN_NAMES and isinstance(item, int) and not isinstance(item, bool):
        return ids.get(item)
    if isinstance(item, Mapping):
        return _renumbered(dict(item), ids)
    if isinstance(item, list):
        if name in _RUN_LISTS and all(type(one) is int for one in item):
            return [ids[one] for one in item if one in ids]
        return [_follow("", one, ids) for one in item]
    return item
