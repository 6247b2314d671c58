"""Which resource held each phase back on each side, by the judge of bottlenecks over its samples. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.results.migrate import PhaseTiming
from pgdyno.model.samples import SampleRow
from pgdyno.probes.held_back import held_back
from pgdyno.probes.run_figures import LoadShape, read_figures

SHORTEST_S = 3.0
"""Of a phase that is shorter too few seconds are sampled."""
NOT_SEEN = "it took less than 3 s: too short to judge from one sample a second"


def judged_phases(
    phases: Sequence[PhaseTiming],
    sides: dict[str, tuple[Collection[SampleRow], bool]],
    began_at: float,
) -> tuple[PhaseTiming, ...]:
    """Return the phases with what held them back; `sides` has rows by side, and whether its host was sampled here.

    `began_at` is the moment, in seconds since the epoch, from which the phases' times count.
    """
    found = []
    for one in phases:
        limits, words = dict(one.limits), dict[str, str]()
        for side, (rows, own_host) in sides.items():
            if one.began_s is None or one.ended_s is None:
                continue
            span = (began_at + one.began_s, began_at + one.ended_s)
            verdict = _verdict(one.jobs, span, rows, own_host=own_host)
            words[side] = verdict.resource.value
            limits[side] = verdict.evidence[0] if verdict.evidence else ""
        found.append(
            replace(one, source_limit=words.get("source", ""), target_limit=words.get("target", ""), limits=limits)
        )
    return tuple(found)


def _verdict(jobs: int, span: tuple[float, float], rows: Collection[SampleRow], *, own_host: bool) -> BottleneckVerdict:
    begin, end = span
    if end - begin < SHORTEST_S:
        return BottleneckVerdict(Resource.UNKNOWN, None, (NOT_SEEN,))
    load = LoadShape(clients=jobs, jobs=jobs, load_s=end - begin)
    return held_back(read_figures(rows, load, begin, end, {}, own_host=own_host, own_devices=own_host))
