"""What on the dashboard's first page needs a look: silent studies, guards, failures, answers waited for. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.model.job import Job, JobState
from pgdyno.model.live import Colour
from pgdyno.model.study import Study, StudyState
from pgdyno.model.trial import TrialState
from pgdyno.studies.kinds import judged, kind_of
from pgdyno.units import plural, seconds_text
from pgdyno.web.cards import StudyCard

RECENT_S = 24 * 3600.0
"""For how long a study or job that failed, or a study that fell silent, is shown."""
AT_FIRST = 2
"""So many alerts stand on a telephone before those that are asked for."""
MANY_DISTURBED = 0.25
"""From this share of disturbed trials on a study is worth a look: its verdict takes longer, or never comes."""


@dataclass(frozen=True, slots=True)
class StudyEnd:
    """What ended a study that failed, empty where nothing tells it, and when its last trial ended, 0 without one."""

    reason: str = ""
    at: float = 0.0


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


def others_text(alerts: Sequence[Alert]) -> str:
    """Name those after the first, which a telephone does not show at once: `3 more: 1 alert, 2 warnings`."""
    rest = alerts[AT_FIRST:]
    bad = sum(one.tone == "bad" for one in rest)
    told = [plural(count, word) for count, word in ((bad, "alert"), (len(rest) - bad, "warning")) if count]
    return f"{len(rest)} more: {', '.join(told)}" if rest else ""


def named(alerts: Sequence[Alert], studies: Sequence[Study], cards: Sequence[StudyCard]) -> tuple[Alert, ...]:
    """Return the alerts with the names of their studies."""
    names = {study.id: study.name for study in (*studies, *(card.study for card in cards))}
    return tuple(replace(alert, name=names.get(alert.study, "")) for alert in alerts)


def _disturbed(counts: Mapping[str, int]) -> str:
    """Say of a study that others disturbed a large share of its trials; empty where they did not."""
    disturbed = counts.get(TrialState.DISTURBED.value, 0)
    ended = sum(counts.values()) - counts.get(TrialState.RUNNING.value, 0)
    if not disturbed or disturbed < MANY_DISTURBED * ended:
        return ""
    return f"others on the host disturbed {disturbed} of {plural(ended, 'trial')}, which are not used"


def alerts_of(
    cards: Sequence[StudyCard],
    studies: Sequence[Study],
    counts: Mapping[str, Mapping[str, int]],
    jobs: Sequence[Job],
    now: float,
    ends: Mapping[str, StudyEnd] | None = None,
) -> list[Alert]:
    """Return what has to be looked at, the worst first; `now` is seconds since the epoch, `counts` trials by state.

    `cards` are the studies under way and those that fell silent. Of `studies` and `jobs`, the store's list and queue,
    only what ended in the last RECENT_S counts. `counts` is keyed by the study's id, then by the state's word. `ends`
    says how failed studies ended, by the study's id; None where that is not known.
    """
    found = []
    for card in cards:
        live = card.live
        if card.silent_s is not None:
            found.append(Alert("unsure" if card.is_over else "bad", _silence(card), live.study))
        else:
            if card.question is not None:
                found.append(Alert("unsure", f"a question waits for an answer: {card.question.title}", live.study))
            for indicator in live.indicators:
                if indicator.colour in (Colour.RED, Colour.AMBER):
                    tone = "bad" if indicator.colour == Colour.RED else "unsure"
                    found.append(
                        Alert(tone, f"guard {indicator.name} is {indicator.colour}: {indicator.text}", live.study)
                    )
            if told := _disturbed(counts.get(live.study, {})):
                found.append(Alert("unsure", told, live.study))
            tripped = [trial for trial in card.trials if trial.reason.startswith("guard ")]
            found += [Alert("unsure", f"trial {trial.id} was ended: {trial.reason}", live.study) for trial in tripped]
    under_way = {card.live.study for card in cards if card.silent_s is None}
    for study in studies:
        if study.id in under_way:  # resumed a moment ago, since the list was read
            continue
        end = (ends or {}).get(study.id, StudyEnd())
        took_s = 0.0 if study.result is None else study.result.elapsed_s or 0.0
        is_recent = now - max(study.created_at + took_s, end.at) < RECENT_S
        if study.state is StudyState.FAILED and is_recent:
            found.append(Alert("bad", f"a study failed{': ' if end.reason else ''}{end.reason}", study.id))
        elif study.state is not StudyState.RUNNING and is_recent:
            told = judged(study).alert if study.state is StudyState.COMPLETE else ""
            told = told or _disturbed(counts.get(study.id, {}))
            found += [Alert("unsure", told, study.id)] if told else []
    for job in jobs:
        if job.state is JobState.FAILED and now - (job.ended_at or job.added_at) < RECENT_S:
            found.append(Alert("bad", f"job {job.id} failed: {job.reason or 'no reason was kept'}", job.study or ""))
    return sorted(found, key=lambda one: one.tone != "bad")


def _silence(card: StudyCard) -> str:
    live, seconds = card.live, seconds_text(card.silent_s or 0)
    kind = kind_of(card.study.kind)
    verb = kind.continued_by(card.study)
    if card.is_over:
        again = f"; pgdyno {verb} --resume {shlex.quote(live.study)} continues it" if verb else ""
        return f"study {live.study} was killed {seconds} ago, and {kind.after_kill(card.study)}{again}."
    silence = (
        f"study {live.study} has not responded for {seconds}: process {live.pid} on {live.host} was killed, or hangs."
    )
    if not kind.may_change(card.study):
        return f"{silence} If it was killed, {kind.after_kill(card.study)}."
    again = f", then pgdyno {verb} --resume {shlex.quote(live.study)} continues it" if verb else ""
    return f"{silence} pgdyno rollback --list shows whether its server was restored{again}."
