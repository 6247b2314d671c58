"""What `bench/replay.py` counts: figures beside which others used little of the machine."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCH = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "replay.py"))


def test_what_others_used_is_all_that_was_busy_without_us() -> None:
    share = BENCH["foreign_percent"]
    assert share(busy_s=12.0, own_s=11.0, wall_s=10.0, cpus=2) == pytest.approx(5.0)
    assert share(busy_s=10.9, own_s=11.0, wall_s=10.0, cpus=2) == 0.0, "clocks of ticks"


def test_a_figure_beside_a_busy_machine_is_shown_and_not_counted() -> None:
    assert BENCH["words_of"]([(10.0, 1.0), (99.0, 5.1), (12.0, 5.0)]) == "11.0 (2 of 3)"
    assert BENCH["words_of"]([(10.0, 60.0)]) == "none of 1 counts"
    assert BENCH["beside"](5.1).endswith("others 5.1 %, not counted")
    assert BENCH["beside"](5.0).endswith("others 5.0 %")
