"""What a replay came to, of its records."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from pgdyno.replay.captured import Taped
from pgdyno.studies.replay.result import _think, _Times


@pytest.mark.parametrize("large", [1 << 31, -(1 << 40)])
def test_times_that_need_more_than_32_bits_are_whole(large: int) -> None:
    times = _Times(6)
    for part in ([1, -1], [large], [], [2, 3]):
        times.add(np.array(part, np.int64))
    assert times.all().tolist() == [1, -1, large, 2, 3]


def test_pauses_are_those_at_the_speed_of_the_replay() -> None:
    pauses = array("q", [3, 1 << 33, *range(50_000)])
    found = _think(Taped(0, 0, 0, pauses), 2.0)
    assert found.tolist() == [one // 2 for one in pauses]
