"""Which blocks are read into shared buffers after a restart: without a server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.workloads.buffer_warmth import STRETCH, stretches


@given(lengths=st.lists(st.integers(1, 3 * STRETCH), min_size=1, max_size=5), room=st.integers(1, 6 * STRETCH))
def test_relations_are_read_in_order_until_the_buffers_are_full(lengths, room):
    relations = list(enumerate(lengths, start=16384))
    read = dict.fromkeys((oid for oid, _ in relations), 0)
    for part in stretches(relations, room):
        assert part.first == read[part.oid], "neither a gap nor an overlap"
        assert part.first <= part.last < part.first + STRETCH
        read[part.oid] = part.last + 1
    assert sum(read.values()) == min(room, sum(lengths))
    started = [oid for oid, length in relations if read[oid]]
    assert started == [oid for oid, _ in relations][: len(started)]
    assert all(read[oid] == length for oid, length in relations if oid in started[:-1]), "only the last is read in part"
