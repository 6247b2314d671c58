"""What the model of a search says of its knobs, as the results of a tune and of a live search keep it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.knobs.dimension import Dimension
from pgdyno.model.results.tune import KnobImportance, KnobValue, SearchModel
from pgdyno.model.verdict import Interval
from pgdyno.optimizer.importance import KnobSlice, knob_slices
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.stats.distributions import ndtri
from pgdyno.stats.paired import interval

MOST_SLICED = 4
"""So many knobs keep their slices: the rest hardly matters, and results are read often."""


def search_model(
    dimensions: Sequence[Dimension], history: Sequence[ScoredPoint], confidence: float
) -> SearchModel | None:
    """Return what the model says; None where nothing was searched."""
    if not dimensions or not history:
        return None
    found = knob_slices(dimensions, history)
    if isinstance(found, str):
        return SearchModel(unknown=found)
    by_name = {one.name: one for one in dimensions}
    reach = float(ndtri(0.5 + confidence / 2))
    return SearchModel(
        knobs=tuple(
            _importance(one, by_name[one.knob], history, (reach, confidence), is_sliced=place < MOST_SLICED)
            for place, one in enumerate(found)
        )
    )


def _importance(
    one: KnobSlice,
    dimension: Dimension,
    history: Sequence[ScoredPoint],
    sure: tuple[float, float],
    *,
    is_sliced: bool,
) -> KnobImportance:
    reach, confidence = sure
    whole = interval(one.span, reach * one.sd, confidence)
    tried = {dimension.clip(seen.point.get(one.knob, dimension.default)) for seen in history}
    values = tuple(
        KnobValue(value=dimension.to_text(level.value), ratio=interval(level.lead, reach * level.sd, confidence))
        for level in one.levels
    )
    return KnobImportance(
        knob=one.knob,
        span=Interval(whole.ratio, max(1.0, whole.lo), whole.hi, confidence),
        best=dimension.to_text(one.best),
        worst=dimension.to_text(one.worst),
        default=dimension.to_text(dimension.default),
        tried=tuple(dimension.to_text(value) for value in sorted(tried, key=dimension.encode)),
        values=values if is_sliced else (),
    )
