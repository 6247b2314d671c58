"""What pg_stat_statements counts is believed only where it can be a count."""

import math
import struct

import numpy as np
import psycopg
import pytest

from pgdyno.probes.statement_rows import statement_rows
from pgdyno.probes.statements import StatementKey, StatementReader

KEY = (5, 10, -7_000_000_000_000_000_001, True)
HONEST = (5.0, 12.5, 0.1, 0.0, 0.0, 5.0, math.nan, 40.0)


def record(key=KEY, counters=HONEST, float_oid=701):
    """Return a row as record_send writes it: number of columns, then type, length (-1: NULL) and bytes of each."""
    packed = struct.pack(">i", len(key) + len(counters))
    for value, oid, kind in zip(key, (20, 20, 20, 16), "qqq?", strict=True):
        packed += struct.pack(f">Ii{kind}", oid, struct.calcsize(f">{kind}"), value)
    for value in counters:
        packed += struct.pack(">Ii", float_oid, -1) if value is None else struct.pack(">Iid", float_oid, 8, value)
    return packed


def test_a_row_is_what_the_server_sent_and_an_unknown_moment_is_no_lie():
    found = statement_rows([record(), record((5, 11, 2, False), (*HONEST[:7], 3.0))])
    assert found.keys.tolist() == [[5, 10, KEY[2], 1], [5, 11, 2, 0]]
    assert found.counters[:, 0].tolist()[:6] == list(HONEST[:6])
    assert np.isnan(found.counters[6]).all()
    assert found.counters[7].tolist() == [40.0, 3.0]
    assert (statement_rows([]).keys.shape, statement_rows([]).counters.shape) == ((0, 4), (8, 0))


@pytest.mark.parametrize("lie", [-1.0, math.nan, math.inf, -math.inf, 1e308, None])
@pytest.mark.parametrize("column", [0, 1, 5, 7])
def test_what_counts_nothing_is_the_servers_error(column, lie):
    with pytest.raises(psycopg.DataError):
        statement_rows([record(), record(counters=(*HONEST[:column], lie, *HONEST[column + 1 :]))])


@pytest.mark.parametrize("other", [b"", b"\0" * 5, record(counters=HONEST[:7]), record(float_oid=20)])
def test_other_columns_are_the_servers_error(other):
    with pytest.raises(psycopg.DataError):
        statement_rows([record(), other])


def test_columns_that_make_up_for_each_others_length_are_found():
    shorter, longer = record(counters=HONEST[:7]), record(counters=(*HONEST, 1.0))
    assert len(shorter) + len(longer) == 2 * len(record())
    with pytest.raises(psycopg.DataError):
        statement_rows([shorter, longer])


def test_a_number_stays_with_its_statement_in_whatever_order_it_comes():
    reader = StatementReader(None)
    first = np.array([[5, 10, 1, 1], [5, 10, 2, 1], [5, 10, 1, 0]])
    assert reader._numbers_of(first).tolist() == [0, 1, 2]
    assert reader._numbers_of(first.copy()).tolist() == [0, 1, 2]
    assert reader._numbers_of(first[[2, 0]]).tolist() == [2, 0]
    reader.release([1])
    assert reader._numbers_of(np.array([[5, 10, 9, 1], *first[[2, 0]].tolist()])).tolist() == [1, 2, 0]
    assert reader.keys[1:] == [StatementKey(5, 10, 9, True), StatementKey(5, 10, 1, False)]
    assert reader._numbers_of(first[[2, 0]]).tolist() == [2, 0]
    reader.adopt([StatementKey(5, 10, 1, False)])
    assert reader._numbers_of(first[[2, 0]]).tolist() == [0, 1], "what was read before it took them over is forgotten"
