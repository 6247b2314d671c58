"""Does a server have another number of sessions at work than when its settings were found? Pure.

What one session may take, many may not: settings that were found with one are tried again with ten. Nothing is begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pgdyno.model.environment import same_environment
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.report.wording import settings_text
from pgdyno.studies.kinds import kind_of
from pgdyno.units import digits_text, plural

FAR = 4.0
"""So many times as many sessions at work, or as few, are another load."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a study found, and with how many sessions at work."""

    study: str
    settings: dict[str, str]
    sessions: float


def other_profile(studies: Iterable[Study], environment: str, at_work: float | None) -> tuple[str, ...]:
    """Return a proposal where the newest finding of this environment was made with far fewer or more sessions at work.

    It names what an earlier study found with about as many as now, to be compared first; `at_work` is the middle number
    of the time that was watched, None where it was not seen.
    """
    found = list(_profiles(studies, environment))
    if at_work is None or not found or not is_far(found[0].sessions, at_work):
        return ()
    newest, now = found[0], max(1.0, at_work)
    text = (
        f"the settings of study {newest.study} were found with {_sessions(newest.sessions)} at work, and "
        f"{digits_text(now, 2)} are at work now"
    )
    near = next((one for one in found[1:] if not is_far(one.sessions, at_work)), None)
    if near is not None:
        words = ",".join(f"{name}={value}" for name, value in near.settings.items())
        text += f". Study {near.study} found {settings_text(near.settings)} with {_sessions(near.sessions)}: "
        return (f"{text}pgdyno live --b '{words}', with the --target of this watch",)
    return (f"{text}: search again, with pgdyno live --search and the --target of this watch",)


def is_far(then: float, now: float) -> bool:
    """Tell whether two numbers of sessions at work are those of different loads; less than one counts as one."""
    then, now = max(1.0, then), max(1.0, now)
    return max(then, now) >= FAR * min(then, now)


def _profiles(studies: Iterable[Study], environment: str) -> Iterator[Profile]:
    for study in studies:
        is_here = same_environment(study.environment, environment)
        if not is_here or study.state is not StudyState.COMPLETE or study.result is None:
            continue
        if study.kind not in (StudyKind.LIVE, StudyKind.TUNE):
            continue
        settings = dict(kind_of(study.kind).offered(study).settings)
        told = study.told(LiveResult) if study.kind is StudyKind.LIVE else None
        sessions = float(study.plan.clients) if told is None else told.reference.active_median
        if settings:
            yield Profile(study.id, settings, max(1.0, sessions))


def _sessions(count: float) -> str:
    return plural(round(count), "session")
