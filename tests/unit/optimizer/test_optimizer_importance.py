"""What the model says of each knob: a planted effect comes first, one without any may be nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgdyno.knobs.dimension import Dimension
from pgdyno.optimizer.importance import FEWEST, knob_slices
from pgdyno.optimizer.observation import ScoredPoint

SPACE = [
    Dimension("memory", "integer", 1, 1024, log=True, default=4),
    Dimension("idle", "integer", 1, 1024, log=True, default=4),
    Dimension("fixed", "integer", 1, 1024, log=True, default=4),
    Dimension("jit", "choice", choices=("off", "on"), default="on"),
]


def history(count, *, seed=1, noise=0.02):
    rng = np.random.default_rng(seed)
    found = [ScoredPoint({"memory": 4, "idle": 4, "fixed": 4, "jit": "on"}, float(rng.normal(0, noise)))]
    for _ in range(count - 1):
        memory, idle = (int(2 ** rng.uniform(0, 10)) for _ in range(2))
        jit = "off" if rng.random() < 0.5 else "on"
        value = 0.4 * math.log2(memory / 4) / 8 + (0.1 if jit == "off" else 0.0) + rng.normal(0, noise)
        found.append(ScoredPoint({"memory": memory, "idle": idle, "fixed": 4, "jit": jit}, float(value)))
    return found


@pytest.fixture(scope="module")
def slices():
    return {one.knob: one for one in knob_slices(SPACE, history(40))}


def test_the_knob_that_matters_comes_first_and_its_span_holds_what_was_planted(slices):
    assert next(iter(slices)) == "memory"
    memory = slices["memory"]
    assert (memory.worst, memory.best) == (1, 1024)
    assert abs(memory.span - 0.5) < 4 * memory.sd + 0.05, "from a quarter of the default to 256 times it: 0.4 * 10 / 8"
    assert memory.span > 4 * memory.sd


def test_a_choice_is_read_against_its_default(slices):
    levels = {one.value: one for one in slices["jit"].levels}
    assert (levels["on"].lead, levels["on"].sd) == (0.0, 0.0)
    assert abs(levels["off"].lead - 0.1) < 4 * levels["off"].sd
    assert slices["jit"].best == "off"


def test_a_knob_without_effect_may_be_nothing_and_one_that_never_moved_is_not_told(slices):
    assert slices["idle"].span < 3 * slices["idle"].sd + 0.03
    assert slices["idle"].span < slices["jit"].span
    assert "fixed" not in slices


def test_values_are_in_their_order_with_the_default_among_them(slices):
    values = [one.value for one in slices["memory"].levels]
    assert values == sorted(values)
    assert {1, 4, 1024} <= {*values}


def test_too_short_a_history_is_unknown_with_the_reason():
    said = "9 different configurations over 3 knobs were measured, and 10 are needed"
    assert knob_slices(SPACE, history(FEWEST - 1)) == said
    assert isinstance(knob_slices(SPACE, history(FEWEST)), list)
    assert isinstance(knob_slices(SPACE, [ScoredPoint({}, None)] * 20), str)


def test_many_knobs_need_more_configurations_to_be_told_apart():
    space = [Dimension(f"k{number}", "integer", 1, 1024, default=4) for number in range(16)]
    rng = np.random.default_rng(1)
    points = [{one.name: int(rng.integers(1, 1024)) for one in space} for _ in range(23)]
    said = knob_slices(space, [ScoredPoint(point, 0.0) for point in points])
    assert said == "23 different configurations over 16 knobs were measured, and 24 are needed"


def test_hopeless_values_count_as_low_as_they_are():
    """The search raises them to a floor; a cliff of 3.4 times would be told as one of 1.5."""
    cliff = [ScoredPoint(one.point, math.log(3.4) if int(one.point["memory"]) >= 32 else 0.0) for one in history(40)]
    first = knob_slices(SPACE, cliff)[0]
    assert first.knob == "memory"
    assert abs(first.span - math.log(3.4)) < 0.3
