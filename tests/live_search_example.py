"""Searches on a live load as their pages and the store have them: finalists of a simulated load, two candidates."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.results.live import LiveCandidate, LiveSearch
from pgdyno.model.results.tune import KnobImportance, KnobValue, SearchModel
from pgdyno.model.verdict import Interval
from pgdyno.probes.statements import StatementKey
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.arms import Arms
from pgdyno.studies.live.candidates import MEASURED, REJECTED
from pgdyno.studies.live.switch_result import switch_of
from pgdyno.studies.live.switchback import Switchback
from simulated_live_world import World

SETTINGS = {"work_mem": "16MB", "random_page_cost": "1.5"}


def final(factor):
    world = World(factor, seed=3)
    outcome = Switchback(world, world.reference, 30.0, Design(), seed=3).run()
    arms = Arms(BASELINE, Configuration.of(SETTINGS), {"work_mem": "4MB", "random_page_cost": "4"})
    keys = [StatementKey(5, 6, 1000 + number, True) for number in range(200)]
    return switch_of(arms, outcome, world.reference, keys, ({5: "shop"}, {6: "web"}), seed=3, session="x")


BETTER, WORSE = final(0.8), final(1.2)
CANDIDATES = (
    LiveCandidate(number=1, settings={"work_mem": "64MB"}, origin="start", fate=REJECTED),
    LiveCandidate(number=2, settings=SETTINGS, origin="model", fate=MEASURED, pairs=2, ratio=0.81, error=0.05, cpu=1.23,
                  memory_bytes=1 << 30),
)  # fmt: skip
SPAN = Interval(1.3, 1.1, 1.5, 0.95)
KNOB = KnobImportance(knob="work_mem", span=SPAN, best="64MB", worst="4MB", default="4MB", tried=("4MB", "64MB"),
                      values=(KnobValue(value="4MB", ratio=SPAN),))  # fmt: skip
MODEL = SearchModel(
    knobs=(
        KNOB,
        replace(KNOB, knob="random_page_cost", span=Interval(1.1, 1.0, 1.2, 0.95), best="1.5", worst="4", default="4",
                tried=("1.5", "4"), values=()),
    )
)  # fmt: skip
"""What the model of a search may say of its knobs."""


def search(**fields):
    found = {
        "knobs": ("work_mem", "random_page_cost"),
        "left_out": {"commit_delay": "acts at the commit"},
        "candidates": CANDIDATES,
        "stopped": "all 2 were tried",
        "session": "20261126",
    }
    return LiveSearch(**{**found, **fields})
