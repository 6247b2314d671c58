"""What the dashboard's first page shows, read from the store: studies under way, the queue, alerts, what was found."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno import units
from pgdyno.errors import StoreError
from pgdyno.model.job import Job, JobState
from pgdyno.model.live import KILLED, SILENT, Live
from pgdyno.model.study import Study, StudyState
from pgdyno.model.trial import Trial, TrialState
from pgdyno.report.wording import Tone
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.store.queue import Queue
from pgdyno.store.requests import RequestBoard
from pgdyno.studies.kinds import judged
from pgdyno.units import plural
from pgdyno.web.alerts import RECENT_S, Alert, StudyEnd, alerts_of, named, others_text
from pgdyno.web.cards import StudyCard, history_of

FRESH_S = 0.9
"""Readers within this time share one reading of the store."""
SLOW_S = 5.0
"""How often the list of studies and the queue are read again: they change seldom, and a study's row is large."""
PAGE = 50
CLOSED_S = 3600.0
"""For how long a study is shown that was killed and whose server was restored: there is nothing to do about it."""
LAST_TRIALS = 8
SHOWN_REQUESTS = 6
HISTORY = 400
"""So many trials are in a chart, the newest: it is sent each second, and a study may have thousands."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A study in the list. `said` is its verdict in a few words; `tone` colours `word`."""

    study: Study
    began: str
    trials: str
    word: str
    tone: str
    said: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job of the queue that has not ended, or has failed lately; with its study's name, empty where not known."""

    job: Job
    command: str
    about: str
    study_name: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """The first page. `store` is the store's name without a password; `unreadable` are studies that cannot be read."""

    at: str
    store: str
    cards: tuple[StudyCard, ...]
    alerts: tuple[Alert, ...]
    jobs: tuple[Waiting, ...]
    rows: tuple[StudyRow, ...]
    unreadable: Mapping[str, str]
    page: int
    has_more: bool

    @property
    def other_alerts(self) -> str:
        """Return which alerts a telephone does not show at once, empty where it shows all."""
        return others_text(self.alerts)


class OverviewReader:
    """Reads overviews of one store, at most once in `FRESH_S` for all readers. Safe to use from several threads.

    `is_over` tells of a silent study that its process is gone and its server as it was found; the store cannot know.
    Raises StoreError as the store does.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        is_over: Callable[[Study, Live], bool] = lambda _study, _live: False,
    ) -> None:
        self.store = store
        self._requests = RequestBoard(store)
        self._is_over = is_over
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: tuple[float, Overview] | None = None
        self._slow: tuple[float, tuple[list[Study], dict[str, str]], list[Job]] | None = None
        self._trials: dict[str, tuple[Mapping[str, int], list[Trial]]] = {}
        self._ends: dict[str, StudyEnd] = {}

    def latest(self) -> Overview:
        """Return the first page as it is now, or was a moment ago."""
        with self._lock:
            now = self._clock()
            if self._latest is None or not 0 <= now - self._latest[0] < FRESH_S:
                self._latest = now, self._read(now)
            return self._latest[1]

    def page(self, number: int) -> Overview:
        """Return the overview with another page of the list of studies; 0 is the newest."""
        if number == 0:
            return self.latest()
        with self._lock:
            return self._read(self._clock(), number)

    def _read(self, now: float, page: int = 0) -> Overview:
        counts = self.store.trial_counts()
        (studies, unreadable), jobs = self._seldom(now) if page == 0 else (self._listed(page), self._seldom(now)[1])
        running = LiveBoard(self.store).running()
        cards, hidden = self._cards(running, counts, now)
        quiet = {live.study: live for live in running if live.is_silent(now)}
        names = {study.id: study.name for study in (*studies, *(card.study for card in cards))}
        shown = tuple(_row(one, counts.get(one.id, {}), self._ended(one, quiet)) for one in studies[:PAGE])
        return Overview(
            at=moment_text(now),
            store=self.store.name,
            cards=tuple(card for card in cards if not card.is_over),
            alerts=named(alerts_of(cards, studies, counts, jobs, now, self._failures(studies)), studies, cards),
            jobs=tuple(_waiting(job, names.get(job.study or "", "")) for job in jobs if _is_open(job, now)),
            rows=shown,
            unreadable={**hidden, **unreadable},
            page=page,
            has_more=len(studies) > PAGE,
        )

    def _ended(self, study: Study, quiet: Mapping[str, Live]) -> str:
        """Return the word for a study that says to run and of which nothing is heard, empty for every other one."""
        if study.state is not StudyState.RUNNING or study.id not in quiet:
            return ""
        return KILLED if self._is_over(study, quiet[study.id]) else SILENT

    def _failures(self, studies: Sequence[Study]) -> Mapping[str, StudyEnd]:
        """Return how the studies ended that failed; an ended study is read once."""
        failed = [one for one in studies if one.state is StudyState.FAILED]
        self._ends = {study.id: self._ends.get(study.id) or self._end(study) for study in failed}
        return self._ends

    def _end(self, study: Study) -> StudyEnd:
        try:
            last = self.store.trials(study.id, newest=1)
        except StoreError as error:
            return StudyEnd(error.one_line)
        outcome = last[-1].outcome if last else None
        told = "" if outcome is None else outcome.reason or ""
        return StudyEnd(study.ended or told, 0.0 if outcome is None else outcome.ended_at or 0.0)

    def _listed(self, page: int) -> tuple[list[Study], dict[str, str]]:
        return self.store.listed_studies(most=PAGE + 1, skip=page * PAGE)

    def _seldom(self, now: float) -> tuple[tuple[list[Study], dict[str, str]], list[Job]]:
        if self._slow is None or not 0 <= now - self._slow[0] < SLOW_S:
            self._slow = now, self._listed(0), Queue(self.store).jobs()
        return self._slow[1], self._slow[2]

    def _cards(
        self, running: Sequence[Live], counts: Mapping[str, Mapping[str, int]], now: float
    ) -> tuple[tuple[StudyCard, ...], dict[str, str]]:
        """Return the studies that run, and by its id why another one that does cannot be read."""
        self._trials = {live.study: self._trials[live.study] for live in running if live.study in self._trials}
        cards, unreadable = [], {}
        for live in running:
            if now - live.at < RECENT_S:
                try:
                    cards.append(self._card(live, counts.get(live.study, {}), now))
                except StoreError as error:  # one row must not hide the others
                    unreadable[live.study] = error.one_line
        return tuple(card for card in cards if card is not None), unreadable

    def _card(self, live: Live, counts: Mapping[str, int], now: float) -> StudyCard | None:
        study = self.store.study(live.study)
        if live.is_silent(now) and study.state is not StudyState.RUNNING:
            return None  # it ended, and the store was away when its row was to go
        is_over = live.is_silent(now) and self._is_over(study, live)
        if is_over and now - live.at > CLOSED_S:
            return None
        known = self._trials.get(live.study)
        if known is None or known[0] != counts:
            known = self._trials[live.study] = counts, self.store.trials(live.study, newest=HISTORY)
        trials = known[1]
        ended = [trial for trial in trials if trial.state is not TrialState.RUNNING]
        return StudyCard(
            live=live,
            study=study,
            silent_s=now - live.at if live.is_silent(now) else None,
            age_s=now - live.began_at,
            counts=_counts(counts),
            trials=tuple(reversed(ended[-LAST_TRIALS:])),
            history=history_of(ended, study.metric, first=1 + max(0, sum(counts.values()) - len(trials))),
            requests=tuple(self._requests.of_study(live.study, most=SHOWN_REQUESTS)) if live.desk is not None else (),
            is_over=is_over,
        )


def _row(study: Study, counts: Mapping[str, int], ended: str) -> StudyRow:
    found = judged(study)
    is_told = study.state is StudyState.COMPLETE and bool(found.said)
    word = found.word if is_told and found.word else ended or study.state.value
    tone = found.tone if is_told or study.state in (StudyState.FAILED, StudyState.INTERRUPTED) else Tone.NEUTRAL
    tone = Tone.UNSURE if ended else tone
    return StudyRow(
        study, moment_text(study.created_at), _counts(counts), word, tone.value, found.said if is_told else ""
    )


def _counts(counts: Mapping[str, int]) -> str:
    """Write how many trials there are, and of those that were not complete which."""
    others = [f"{count} {state}" for state, count in sorted(counts.items()) if state not in ("complete", "running")]
    complete = counts.get("complete", 0)
    return ", ".join([plural(complete, "trial"), *others])


def _waiting(job: Job, study_name: str) -> Waiting:
    words = [
        job.state.value,
        f"on {job.host}" if job.host else "",
        f"attempt {job.attempts}" if job.attempts > 1 else "",
    ]
    about = ", ".join(word for word in (*words, job.reason or "") if word)
    return Waiting(job, f"pgdyno {shlex.join(job.argv)}", about, study_name)


def _is_open(job: Job, now: float) -> bool:
    if job.state is JobState.FAILED:
        return now - (job.ended_at or job.added_at) < RECENT_S
    return job.state in (JobState.WAITING, JobState.RUNNING, JobState.INTERRUPTED)


def moment_text(seconds: float) -> str:
    """Write a moment in this host's time zone."""
    return units.moment_text(seconds, "%Y-%m-%d %H:%M:%S", None)
