"""What the torture suite calls lost: a value that differs, and not a disk that came or went meanwhile."""

from __future__ import annotations

from state import State


def test_every_difference_counts_but_for_disks_that_are_new_or_gone():
    before = State({"kernel /sys/block/a": "none", "kernel /sys/block/gone": "none", "file x": "1", "kernel y": "2"})
    assert before.differences(before) == []
    assert before.differences(State({**before.values, "kernel /sys/block/new": "none"})) == []
    assert before.differences(State({"kernel /sys/block/a": "none", "file x": "1", "kernel y": "2"})) == []
    assert before.differences(State({**before.values, "kernel /sys/block/a": "bfq"})) == [
        "kernel /sys/block/a: was none, is bfq"
    ]
    assert before.differences(State({**before.values, "file new": "1"})) == ["file new: was None, is 1"]
    assert before.differences(State({"kernel /sys/block/a": "none", "file x": "1"})) == ["kernel y: was 2, is None"]
