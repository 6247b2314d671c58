"""What earlier studies of the same environment found: where a search on a live server begins. Pure.

Nothing is believed of it: each is a candidate as any other, measured by pairs of its own on the load of today.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from pgdyno.errors import PgdynoError
from pgdyno.knobs.space import SearchSpace, configuration_to_point
from pgdyno.model.configuration import Configuration
from pgdyno.model.environment import same_environment
from pgdyno.model.facts import Facts
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.live.candidates import MEASURED

MOST = 3
"""So many are tried first: a search has twenty candidates."""
_KINDS = (StudyKind.LIVE, StudyKind.TUNE)


def earlier_starts(studies: Iterable[Study], facts: Facts, space: SearchSpace) -> tuple[dict[str, str], ...]:
    """Return what earlier studies of this environment found, as far as it lies within what is searched."""
    now = {one.name: one.to_text(one.default) for one in space.dimensions}
    found = earlier_settings(studies, facts.environment_hash(), space.names(), now)
    return tuple(one for one in found if _is_possible(space, one, facts))


def _is_possible(space: SearchSpace, settings: Mapping[str, str], facts: Facts) -> bool:
    try:
        configuration_to_point(space, Configuration.of(settings), facts)
    except PgdynoError:
        return False
    return True


def earlier_settings(
    studies: Iterable[Study], environment: str, knobs: Collection[str], now: Mapping[str, str]
) -> tuple[dict[str, str], ...]:
    """Return what studies of this environment, the newest first, found better, as far as it is of these `knobs`.

    What a study offers comes before what it only tried. Settings that are in force `now` are left out.
    """
    found: list[dict[str, str]] = []
    for study in studies:
        is_here = same_environment(study.environment, environment)
        if study.kind not in _KINDS or not is_here or study.state is StudyState.RUNNING:
            continue
        for settings in _of(study):
            ours = {name: value for name, value in settings.items() if name in knobs and now.get(name) != value}
            if ours and ours not in found:
                found.append(ours)
            if len(found) == MOST:
                return tuple(found)
    return tuple(found)


def _of(study: Study) -> Iterator[Mapping[str, str]]:
    if study.state is StudyState.COMPLETE and study.result is not None:
        yield kind_of(study.kind).offered(study).settings
    told = study.told(LiveResult) if study.kind is StudyKind.LIVE else None
    if told is not None and told.search is not None:
        better = [
            (one.ratio, one.settings)
            for one in told.search.candidates
            if one.fate == MEASURED and one.ratio is not None and one.error is not None and one.ratio + one.error < 1
        ]
        if better:
            yield min(better, key=lambda one: one[0])[1]
