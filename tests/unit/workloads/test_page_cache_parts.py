"""What of which files is read into the page cache, and whether data stay there: without a server."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.facts import Unknown
from pgdyno.workloads.page_cache import BATCH_BYTES, fits, stretches

GB = 1 << 30


@given(
    lengths=st.lists(st.integers(1, 5 * BATCH_BYTES), min_size=1, max_size=5),
    segment=st.integers(BATCH_BYTES // 3, 3 * BATCH_BYTES),
)
def test_each_byte_is_read_once_and_in_order(lengths, segment):
    files = [(f"base/5/{number}", length, segment) for number, length in enumerate(lengths)]
    read = defaultdict(int)
    for part in stretches(files):
        assert part.begin == read[part.path], "neither a gap nor an overlap"
        assert 0 < part.end - part.begin <= BATCH_BYTES
        read[part.path] = part.end
    assert all(end <= segment for end in read.values()), "a segment ends where the next file begins"
    for path, length, _ in files:
        assert sum(end for name, end in read.items() if name.split(".")[0] == path) == length


def test_a_relation_longer_than_its_segments_goes_on_in_numbered_files():
    names = [part.path for part in stretches([("base/5/16384", 2 * GB + 8192, GB)])]
    assert list(dict.fromkeys(names)) == ["base/5/16384", "base/5/16384.1", "base/5/16384.2"]


@pytest.mark.parametrize(
    ("size", "memory", "stays"),
    [
        (3 * GB, 4 * GB, True),
        (3 * GB + 1, 4 * GB, False),
        (0, 4 * GB, False),
        (1, Unknown("the server is elsewhere"), False),
    ],
)
def test_only_data_that_stay_in_memory_are_read(size, memory, stays):
    assert fits(size, memory) is stays
