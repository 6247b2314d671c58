"""The store: studies, their trials, and what each trial recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import ColumnElement, func, insert, select, true, update
from sqlalchemy.engine import Connection, Engine

from pgdyno.errors import StoreError, UsageError
from pgdyno.model.change import ChangeRecord
from pgdyno.model.record import Record
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.samples import Event, HistogramRow, SampleRow, SampleValue
from pgdyno.model.shapes import inner
from pgdyno.model.study import ENDED, Study, StudyState
from pgdyno.model.trial import Outcome, Trial, TrialSpec, TrialState
from pgdyno.store import codec, recordings
from pgdyno.store.engine import BUSY_TIMEOUT_S, Patience, make_engine, parse_url, reading, writing
from pgdyno.store.faults import explained, holder_text, label
from pgdyno.store.migrate import ensure_current
from pgdyno.store.schema import CHANGE, ID_LIMIT, STUDY, TRIAL, TRIAL_FACTOR, TRIAL_SETTING

_LIST = "List the studies with pgdyno store list."
_NEWEST = STUDY.c.created_at.desc(), STUDY.c.id.desc()


class Store:
    """Studies, trials and samples in SQLite or PostgreSQL.

    Each method is one transaction, so a kill at any instant leaves whole rows: at most the running trial is lost.
    A finished trial never changes: `finish_trial` works once, and nothing can be recorded for it afterwards. Every
    method raises StoreError for what the database refuses and UsageError for a study or a trial that is not there.
    Safe to use from several processes; from several threads too.
    """

    def __init__(self, engine: Engine, name: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._engine = engine
        self.name = name
        self._patience = self._usual = Patience(busy_timeout_s)

    @classmethod
    def open(cls, where: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Store:
        """Open the store at a path or URL; build it when it is missing, upgrade it when it is older.

        A path or `sqlite:///PATH` is a SQLite file; `postgresql+psycopg://...` a database for a team, whose password
        comes from `~/.pgpass` or PGPASSWORD. `busy_timeout_s` is how long a statement waits for another process that
        writes to the same file. Raises UsageError for another kind of URL.
        """
        url = parse_url(where)
        name = label(url)
        engine = make_engine(url, busy_timeout_s=busy_timeout_s)
        try:
            with explained(name):
                ensure_current(engine, name)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, name, busy_timeout_s=busy_timeout_s)

    def be_patient(self, within_s: float, tell: Callable[[str], None]) -> None:
        """Wait so long for another process that has locked the file, from now on, and tell once in each long wait.

        What is fleeting waits no longer than before. Nothing changes on PostgreSQL, where locks are waited for anyway.
        """

        def say() -> None:
            holder = holder_text(self.name)
            tell(f'store "{self.name}" is locked{f" by {holder}" if holder else ""}: waiting up to {within_s:.0f} s')

        self._patience = Patience(within_s, say)

    def hurry(self) -> None:
        """Wait a moment at most from now on: what the caller does next cannot wait."""
        self._patience.is_in_hurry = True

    def close(self) -> None:
        """Close all connections; the store can still be used and connects again."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_study(self, study: Study) -> None:
        """Keep a new study. Raises StoreError when its id is taken."""
        with self.write() as connection:
            if connection.execute(select(STUDY.c.id).where(STUDY.c.id == study.id)).first():
                raise StoreError(f'study "{study.id}" is in the store already', hint="See pgdyno store list.")
            connection.execute(insert(STUDY), codec.study_to_row(study))

    def update_study(
        self,
        study_id: str,
        *,
        state: StudyState | None = None,
        result: StudyResult | None = None,
        ended: str = "",
    ) -> None:
        """Replace what is given of a study's state and result.

        None leaves `state` or `result` as it is. With a state goes what `ended` the study before its end, in words, or
        that nothing did where it is empty. Raises UsageError where there is no study with the id `study_id`.
        """
        changes: dict[str, object] = {}
        if state is not None:
            changes["state"] = state.value
        if result is not None:
            changes["result"] = codec.to_json(result)
        if not changes:
            return
        with self.write() as connection:
            if state is not None:
                kept = connection.execute(select(STUDY.c.options).where(STUDY.c.id == study_id)).scalar() or {}
                others = {name: value for name, value in kept.items() if name != ENDED}
                changes["options"] = codec.to_json({**others, ENDED: ended} if ended else others)
            done = connection.execute(update(STUDY).where(STUDY.c.id == study_id).values(changes))
            if done.rowcount != 1:
                raise UsageError(f'study "{study_id}" is not in the store', hint=_LIST)

    def study(self, id_or_prefix: str) -> Study:
        """Return a study by its id, by a prefix that only it has, or the newest one for `last`."""
        query = select(STUDY).order_by(*_NEWEST)
        if id_or_prefix == "last":
            query = query.limit(1)
        else:
            query = query.where(func.substr(STUDY.c.id, 1, len(id_or_prefix)) == id_or_prefix).limit(10)
        with self.read() as connection:
            rows = connection.execute(query).mappings().all()
        exact = [row for row in rows if row["id"] == id_or_prefix]
        if len(exact or rows) == 1:
            return codec.study_from_row(dict((exact or rows)[0]))
        if rows:
            names = ", ".join(str(row["id"]) for row in rows)
            raise UsageError(f'"{id_or_prefix}" is a prefix of several studies', detail=names, hint=_LIST)
        if id_or_prefix == "last":
            raise UsageError(f'the store "{self.name}" holds no study', hint="pgdyno bench measures a first run.")
        raise UsageError(f'study "{id_or_prefix}" is not in the store "{self.name}"', hint=_LIST)

    def studies(self, *, target: str | None = None) -> list[Study]:
        """Return the studies that can be read, the newest first: all, or those of one target, by its name."""
        return self.listed_studies(target=target)[0]

    def studies_on(self, data_directory: str) -> list[Study]:
        """Return the studies of servers with this data directory, the newest first; others are not even read."""
        place = STUDY.c.facts["server"]["data_directory"].as_string()
        try:
            with self.read() as connection:
                rows = connection.execute(select(STUDY).where(place == data_directory).order_by(*_NEWEST)).mappings()
                return [codec.study_from_row(dict(row)) for row in rows]
        except StoreError:  # a damaged row, perhaps of another server, must not hide the others
            found = self.studies()
        return [one for one in found if inner(one.facts, "server").get("data_directory") == data_directory]

    def listed_studies(
        self, *, target: str | None = None, most: int | None = None, skip: int = 0
    ) -> tuple[list[Study], dict[str, str]]:
        """Return the studies that can be read, the newest first, and by its id why another one cannot.

        Of a store with many, `most` of them after the first `skip`; of one target, by its name, only its own are read.
        """
        which = true() if target is None else STUDY.c.target == target
        try:
            with self.read() as connection:
                chosen = select(STUDY).where(which).order_by(*_NEWEST).limit(most).offset(skip)
                rows = connection.execute(chosen).mappings()
                return [codec.study_from_row(dict(row)) for row in rows], {}
        except StoreError:  # one row must not hide the others: each is read by itself
            pass
        with self.read() as connection:
            names = select(STUDY.c.id).where(which).order_by(*_NEWEST).limit(most).offset(skip)
            ids = [str(one) for one in connection.execute(names).scalars()]
        found, unreadable = [], {}
        for one in ids:
            try:
                with self.read() as connection:
                    row = connection.execute(select(STUDY).where(STUDY.c.id == one)).mappings().one()
                    found.append(codec.study_from_row(dict(row)))
            except StoreError as error:
                unreadable[one] = error.detail or str(error)
        return found, unreadable

    def trial_counts(self) -> dict[str, dict[str, int]]:
        """Return how many trials of each state every study has, by the state's word: a newer pgdyno may have more."""
        query = select(TRIAL.c.study_id, TRIAL.c.state, func.count()).group_by(TRIAL.c.study_id, TRIAL.c.state)
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        with self.read() as connection:
            for study_id, state, count in connection.execute(query):
                counts[study_id][str(state)] = count
        return dict(counts)

    def begin_trial(self, study_id: str, spec: TrialSpec) -> int:
        """Keep a trial that begins now and return its id, which is its run id in the sample tables."""
        with self.write() as connection:
            if not connection.execute(select(STUDY.c.id).where(STUDY.c.id == study_id)).first():
                raise UsageError(f'study "{study_id}" is not in the store', hint=_LIST)
            (trial_id,) = connection.execute(
                insert(TRIAL).returning(TRIAL.c.id), codec.spec_to_row(study_id, spec)
            ).one()
            settings = [{"trial_id": trial_id, "knob": k, "value": v} for k, v in spec.configuration.items()]
            if settings:
                connection.execute(insert(TRIAL_SETTING), settings)
            factors = [{"trial_id": trial_id, "factor": k, "value": v} for k, v in spec.factors.items()]
            if factors:
                connection.execute(insert(TRIAL_FACTOR), factors)
        return int(trial_id)

    def finish_trial(self, trial_id: int, outcome: Outcome) -> None:
        """Keep the outcome. Raises StoreError when the trial has one already: a finished trial never changes."""
        if outcome.state is TrialState.RUNNING:
            raise StoreError(f'trial {trial_id} cannot finish in state "running"')
        with self.write() as connection:
            _require_running(connection, trial_id)
            connection.execute(update(TRIAL).where(TRIAL.c.id == trial_id).values(codec.outcome_to_row(outcome)))

    def abandon_running(self, study_id: str) -> int:
        """Mark the trials that a killed process left running as abandoned, and return how many there were."""
        reason = "the process that ran it ended before the trial did"
        abandoned = codec.outcome_to_row(Outcome(TrialState.ABANDONED, reason=reason))
        running = (TRIAL.c.study_id == study_id) & (TRIAL.c.state == TrialState.RUNNING.value)
        with self.write() as connection:
            return connection.execute(update(TRIAL).where(running).values(abandoned)).rowcount

    def trial(self, trial_id: int) -> Trial:
        """Return one trial."""
        with self.read() as connection:
            found = read_trials(connection, TRIAL.c.id == trial_id) if abs(trial_id) < ID_LIMIT else []
        if not found:
            raise UsageError(f'trial {trial_id} is not in the store "{self.name}"', hint=_LIST)
        return found[0]

    def trials(self, study_id: str, *, newest: int | None = None) -> list[Trial]:
        """Return the trials of one study in the order in which they began, all or so many of the newest."""
        which = TRIAL.c.study_id == study_id
        if newest is not None:
            which = TRIAL.c.id.in_(select(TRIAL.c.id).where(which).order_by(TRIAL.c.id.desc()).limit(newest))
        with self.read() as connection:
            return read_trials(connection, which)

    def add_samples(self, run_id: int, rows: Iterable[SampleRow]) -> int:
        """Record sample rows of a running trial and return how many they were."""
        with self._recording(run_id) as connection:
            return recordings.write_samples(connection, run_id, rows)

    def add_histograms(self, run_id: int, rows: Iterable[HistogramRow]) -> int:
        """Record latency histograms of a running trial and return how many rows they were."""
        with self._recording(run_id) as connection:
            return recordings.write_records(connection, run_id, rows)

    def add_events(self, run_id: int, events: Iterable[Event]) -> int:
        """Record events of a running trial and return how many they were."""
        with self._recording(run_id) as connection:
            return recordings.write_records(connection, run_id, events)

    def samples(self, run_id: int, table: str) -> dict[str, list[SampleValue]]:
        """Return one sample table of a run as columns, `t` first; empty lists when nothing was recorded."""
        with self.read() as connection:
            return recordings.read_samples(connection, run_id, table)

    def study_samples(self, study_id: str, table: str) -> Iterator[tuple[int, dict[str, list[SampleValue]]]]:
        """Yield one sample table of each run of a study that has rows there, as `samples` returns it, by run."""
        runs = select(TRIAL.c.id).where(TRIAL.c.study_id == study_id)
        with self.read() as connection:
            yield from recordings.read_study_samples(connection, runs, table)

    def histograms(self, run_id: int) -> list[HistogramRow]:
        """Return the latency histograms of a run in the order of time."""
        with self.read() as connection:
            return recordings.read_records(connection, run_id, HistogramRow)

    def events(self, run_id: int) -> list[Event]:
        """Return the events of a run in the order of time."""
        with self.read() as connection:
            return recordings.read_records(connection, run_id, Event)

    def add_records(self, run_id: int, records: Iterable[Record]) -> int:
        """Record what a running trial left beside its samples and return how many records they were."""
        with self._recording(run_id) as connection:
            return recordings.write_records(connection, run_id, records)

    def records(self, run_id: int, kind: type[recordings.R]) -> list[recordings.R]:
        """Return the records of one kind of a run."""
        with self.read() as connection:
            return recordings.read_records(connection, run_id, kind)

    def study_records(self, study_id: str) -> dict[int, tuple[Record, ...]]:
        """Return what the runs of a study left beside their samples, by run; a run that left nothing is not named."""
        with self.read() as connection:
            return recordings.read_study_records(connection, select(TRIAL.c.id).where(TRIAL.c.study_id == study_id))

    def add_changes(self, changes: Iterable[ChangeRecord]) -> None:
        """Record changes, all of them or none."""
        rows = [codec.to_row(change) for change in changes]
        if rows:
            with self.write() as connection:
                connection.execute(insert(CHANGE), rows)

    def changes(self, *, session: str | None = None) -> list[ChangeRecord]:
        """Return the recorded changes in their order, those of one session if it is named."""
        query = select(CHANGE).order_by(CHANGE.c.id)
        if session is not None:
            query = query.where(CHANGE.c.session == session)
        with self.read() as connection:
            return [codec.change_from_row(dict(row)) for row in connection.execute(query).mappings()]

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection to read with, for exports; errors of the driver come out as StoreError."""
        with explained(self.name), reading(self._engine, self._patience) as connection:
            yield connection

    @contextmanager
    def write(self, *, fleeting: bool = False) -> Iterator[Connection]:
        """Give a connection inside one transaction that commits at the end; `fleeting` waits for no disk."""
        patience = self._usual if fleeting else self._patience
        with explained(self.name), writing(self._engine, fleeting=fleeting, patience=patience) as connection:
            yield connection

    @contextmanager
    def _recording(self, run_id: int) -> Iterator[Connection]:
        with self.write() as connection:
            _require_running(connection, run_id)
            yield connection


def _require_running(connection: Connection, trial_id: int) -> None:
    """Refuse to touch a trial that is finished; the row stays locked until the transaction ends."""
    state = connection.execute(select(TRIAL.c.state).where(TRIAL.c.id == trial_id).with_for_update()).scalar()
    if state is None:
        raise UsageError(f"trial {trial_id} is not in the store", hint=_LIST)
    if state != TrialState.RUNNING.value:
        raise StoreError(
            f"trial {trial_id} is finished ({state}), and a finished trial never changes",
            hint=f"See pgdyno store show {trial_id}.",
        )


def read_trials(connection: Connection, which: ColumnElement[bool]) -> list[Trial]:
    """Return the trials of which a condition on table `trial` holds, in the order in which they began."""
    settings: dict[int, list[tuple[str, str]]] = defaultdict(list)
    chosen = select(TRIAL_SETTING).join(TRIAL, TRIAL.c.id == TRIAL_SETTING.c.trial_id).where(which)
    for trial_id, knob, value in connection.execute(chosen):
        settings[trial_id].append((knob, value))
    factors: dict[int, list[tuple[str, str]]] = defaultdict(list)
    varied = select(TRIAL_FACTOR).join(TRIAL, TRIAL.c.id == TRIAL_FACTOR.c.trial_id).where(which)
    for trial_id, factor, value in connection.execute(varied):
        factors[trial_id].append((factor, value))
    rows = connection.execute(select(TRIAL).where(which).order_by(TRIAL.c.id)).mappings()
    return [codec.trial_from_row(dict(row), settings.get(row["id"], ()), factors.get(row["id"], ())) for row in rows]
