"""What the dashboard's first page shows, read from the store: studies under way, the queue, alerts, what was found."""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pgdyno.model.guard import Colour
from pgdyno.model.job import Job, JobState
from pgdyno.model.live import Live
from pgdyno.model.person.live_question import LiveQuestion
from pgdyno.model.person.operator_request import OperatorRequest
from pgdyno.model.study import Study, StudyState
from pgdyno.model.trial import Role, Trial, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.report.sections import Tone
from pgdyno.report.wording import number_text
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.store.queue import Queue
from pgdyno.store.requests import RequestBoard
from pgdyno.studies.kinds import judged, kind_of
from pgdyno.units import plural, seconds_text

FRESH_S = 0.9
"""Readers within this time share one reading of the store."""
SLOW_S = 5.0
"""How often the list of studies and the queue are read again: they change seldom, and a study's row is large."""
PAGE = 50
RECENT_S = 24 * 3600.0
"""For how long a study or job that failed, or a study that fell silent, is shown."""
CLOSED_S = 3600.0
"""For how long a study is shown that was killed and whose server was put back: there is nothing to do about it."""
LAST_TRIALS = 8
SHOWN_REQUESTS = 6
MANY_DISTURBED = 0.25
"""From this share of disturbed trials on a study is worth a look: its verdict takes longer, or never comes."""
HISTORY = 400
"""So many trials are in a chart, the newest: it is sent each second, and a study may have thousands."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to look at; `tone` is `bad` or `unsure`, `study` where to look, `name` how that study is called."""

    tone: str
    text: str
    study: str = ""
    name: str = ""

    @property
    def key(self) -> str:
        """Return what makes it the same alert in the next second, whatever numbers are in its words."""
        return f"{self.study} {re.sub(r'[0-9.,]+', '', self.text)}"


@dataclass(frozen=True, slots=True)
class LastFigure:
    """A figure of a running study. `is_old` says that the newest second had none: it is the last one that was read."""

    name: str
    value: str
    is_old: bool


@dataclass(frozen=True, slots=True)
class StudyCard:
    """A study under way. `history` holds numbers and figures of its newest trials, for the chart: of `metric`."""

    live: Live
    study: Study
    silent_s: float | None
    age_s: float
    counts: str
    trials: tuple[Trial, ...]
    history: Mapping[str, Sequence[float | None]]
    requests: tuple[OperatorRequest, ...] = ()
    """The newest that operators asked of it."""
    is_over: bool = False
    """Its process was killed and its server put back: an alert for a while, and no card."""

    @property
    def metric(self) -> Metric:
        """Return the metric that was asked for."""
        return self.study.metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return what is shown of each trial: the metric that was asked for first."""
        return tuple(dict.fromkeys((self.metric, Metric.THROUGHPUT, Metric.LATENCY_P99)))

    @property
    def has_load(self) -> bool:
        """Return whether it runs a load of its own, whose figures can be shown: what asks persons has none."""
        return self.live.desk is None

    @property
    def question(self) -> LiveQuestion | None:
        """Return what it asks a person, None where nothing waits."""
        return None if self.live.desk is None or self.silent_s is not None else self.live.desk.question

    @property
    def waits(self) -> bool:
        """Return whether it waits for a person."""
        return self.question is not None

    @property
    def done_pct(self) -> int | None:
        """Return how much of the load is over, in percent, None between loads."""
        live = self.live
        return None if not live.duration_s or live.elapsed_s is None else round(100 * live.elapsed_s / live.duration_s)

    @property
    def has_trials(self) -> bool:
        """Return whether trials are counted; a replay is one run, which says itself how far it is."""
        return self.has_load and (bool(self.trials) or self.live.run is not None or not self.live.place)

    @property
    def figures(self) -> tuple[LastFigure, ...]:
        """Return each figure as it was last read, between two loads too; one that never was says so."""
        rate = "tps" if self.has_trials else "statements/s"
        wanted = (
            ("throughput", "tps", rate), ("p99", "p99_ms", "ms"), ("CPU", "cpu_pct", "%"),
            ("memory", "memory_pct", "%"), ("busiest disk", "iops", "IOPS"), ("disk", "disk_mb_per_s", "MB/s"),
            ("active sessions", "active", ""),
        )  # fmt: skip
        series = [(name, [getattr(one, field) for one in self.live.points], unit) for name, field, unit in wanted]
        return tuple(
            _last_figure(name, values, unit)
            for name, values, unit in series
            if self.has_trials or any(value is not None for value in values)
        )

    @property
    def lamps(self) -> str:
        """Return the guards in one line: those that are not green by name, the rest as a number."""
        bad = [lamp for lamp in self.live.lamps if lamp.colour in (Colour.RED, Colour.AMBER)]
        green = sum(lamp.colour == Colour.GREEN for lamp in self.live.lamps)
        words = [f"{lamp.name} {lamp.colour}: {lamp.text}" for lamp in bad]
        return ", ".join([*words, f"{green} green"]) if self.live.lamps else "none watches yet"


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
    """A job of the queue that has not ended, or has failed lately."""

    job: Job
    command: str
    about: str


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
        cards = self._cards(LiveBoard(self.store).running(), counts, now)
        shown = tuple(_row(study, counts.get(study.id, {})) for study in studies[:PAGE])
        return Overview(
            at=moment_text(now),
            store=self.store.name,
            cards=tuple(card for card in cards if not card.is_over),
            alerts=_named(_alerts(cards, studies, counts, jobs, now), studies, cards),
            jobs=tuple(_waiting(job) for job in jobs if _is_open(job, now)),
            rows=shown,
            unreadable=unreadable,
            page=page,
            has_more=len(studies) > PAGE,
        )

    def _listed(self, page: int) -> tuple[list[Study], dict[str, str]]:
        return self.store.listed_studies(most=PAGE + 1, skip=page * PAGE)

    def _seldom(self, now: float) -> tuple[tuple[list[Study], dict[str, str]], list[Job]]:
        if self._slow is None or not 0 <= now - self._slow[0] < SLOW_S:
            self._slow = now, self._listed(0), Queue(self.store).jobs()
        return self._slow[1], self._slow[2]

    def _cards(
        self, running: Sequence[Live], counts: Mapping[str, Mapping[str, int]], now: float
    ) -> tuple[StudyCard, ...]:
        self._trials = {live.study: self._trials[live.study] for live in running if live.study in self._trials}
        cards = [self._card(live, counts.get(live.study, {}), now) for live in running if now - live.at < RECENT_S]
        return tuple(card for card in cards if card is not None)

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
            history=_history(ended, study.metric, first=1 + max(0, sum(counts.values()) - len(trials))),
            requests=tuple(self._requests.of_study(live.study, most=SHOWN_REQUESTS)) if live.desk is not None else (),
            is_over=is_over,
        )


def _history(trials: Sequence[Trial], metric: Metric, first: int) -> Mapping[str, Sequence[float | None]]:
    """Return the figure of complete trials by their number in the study, from `first`, the baseline's apart."""
    numbers: list[float | None] = []
    baseline: list[float | None] = []
    others: list[float | None] = []
    for number, trial in enumerate(trials, first):
        value = (
            None if trial.outcome is None or trial.state is not TrialState.COMPLETE else trial.outcome.figure(metric)
        )
        is_baseline = trial.spec.role is Role.BASELINE
        numbers.append(number)
        baseline.append(value if is_baseline else None)
        others.append(None if is_baseline else value)
    return {"number": numbers, "baseline": baseline, "others": others}


def _named(alerts: Sequence[Alert], studies: Sequence[Study], cards: Sequence[StudyCard]) -> tuple[Alert, ...]:
    names = {study.id: study.name for study in (*studies, *(card.study for card in cards))}
    return tuple(replace(alert, name=names.get(alert.study, "")) for alert in alerts)


def _disturbed(counts: Mapping[str, int]) -> str:
    """Say of a study that others disturbed a large share of its trials; empty where they did not."""
    disturbed = counts.get(TrialState.DISTURBED.value, 0)
    ended = sum(counts.values()) - counts.get(TrialState.RUNNING.value, 0)
    if not disturbed or disturbed < MANY_DISTURBED * ended:
        return ""
    return f"others on the host disturbed {disturbed} of {plural(ended, 'trial')}, which are not used"


def _alerts(
    cards: Sequence[StudyCard],
    studies: Sequence[Study],
    counts: Mapping[str, Mapping[str, int]],
    jobs: Sequence[Job],
    now: float,
) -> list[Alert]:
    found = []
    for card in cards:
        live = card.live
        if card.silent_s is not None:
            found.append(Alert("unsure" if card.is_over else "bad", _silence(card), live.study))
        else:
            if card.question is not None:
                found.append(Alert("unsure", f"an answer is waited for: {card.question.title}", live.study))
            for lamp in live.lamps:
                if lamp.colour in (Colour.RED, Colour.AMBER):
                    tone = "bad" if lamp.colour == Colour.RED else "unsure"
                    found.append(Alert(tone, f"guard {lamp.name} is {lamp.colour}: {lamp.text}", live.study))
            if told := _disturbed(counts.get(live.study, {})):
                found.append(Alert("unsure", told, live.study))
            tripped = [trial for trial in card.trials if _reason(trial).startswith("guard ")]
            found += [Alert("unsure", f"trial {trial.id} was ended: {_reason(trial)}", live.study) for trial in tripped]
    for study in studies:
        if study.state is StudyState.FAILED and now - study.created_at < RECENT_S:
            found.append(Alert("bad", "a study failed:", study.id))
        elif study.state is not StudyState.RUNNING and now - study.created_at < RECENT_S:
            told = judged(study).alert if study.state is StudyState.COMPLETE else ""
            told = told or _disturbed(counts.get(study.id, {}))
            found += [Alert("unsure", told, study.id)] if told else []
    for job in jobs:
        if job.state is JobState.FAILED and now - (job.ended_at or job.added_at) < RECENT_S:
            found.append(Alert("bad", f"job {job.id} failed: {job.reason or 'no reason was kept'}", job.study or ""))
    return found


def _reason(trial: Trial) -> str:
    return (trial.outcome.reason if trial.outcome else None) or ""


def _silence(card: StudyCard) -> str:
    live, seconds = card.live, seconds_text(card.silent_s or 0)
    verb = kind_of(card.study.kind).resumed_by
    if card.is_over:
        again = f"; pgdyno {verb} --resume {live.study} goes on" if verb else ""
        return f"study {live.study} was killed {seconds} ago, and its server is as it was found{again}."
    again = f", then pgdyno {verb} --resume {live.study} goes on" if verb else ""
    return (
        f"study {live.study} has not responded for {seconds}: process {live.pid} on {live.host} was killed, or "
        f"hangs. pgdyno rollback --list shows whether its server was put back{again}."
    )


def _row(study: Study, counts: Mapping[str, int]) -> StudyRow:
    found = judged(study)
    is_told = study.state is StudyState.COMPLETE and bool(found.said)
    word = found.word if is_told and found.word else study.state.value
    tone = found.tone if is_told or study.state in (StudyState.FAILED, StudyState.INTERRUPTED) else Tone.NEUTRAL
    return StudyRow(
        study, moment_text(study.created_at), _counts(counts), word, tone.value, found.said if is_told else ""
    )


def _counts(counts: Mapping[str, int]) -> str:
    """Write how many trials there are, and of those that were not complete which."""
    others = [f"{count} {state}" for state, count in sorted(counts.items()) if state not in ("complete", "running")]
    complete = counts.get("complete", 0)
    return ", ".join([plural(complete, "trial"), *others])


def _waiting(job: Job) -> Waiting:
    words = [
        job.state.value,
        f"on {job.host}" if job.host else "",
        f"attempt {job.attempts}" if job.attempts > 1 else "",
    ]
    return Waiting(
        job, f"pgdyno {shlex.join(job.argv)}", ", ".join(word for word in (*words, job.reason or "") if word)
    )


def _is_open(job: Job, now: float) -> bool:
    if job.state is JobState.FAILED:
        return now - (job.ended_at or job.added_at) < RECENT_S
    return job.state in (JobState.WAITING, JobState.RUNNING, JobState.INTERRUPTED)


def _last_figure(name: str, values: Sequence[float | None], unit: str) -> LastFigure:
    last = next((value for value in reversed(values) if value is not None), None)
    if last is None:
        return LastFigure(name, "unknown", is_old=False)
    return LastFigure(name, f"{number_text(last)} {unit}".rstrip(), is_old=values[-1] is None)


def moment_text(seconds: float) -> str:
    """Write a moment in this host's time zone."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
