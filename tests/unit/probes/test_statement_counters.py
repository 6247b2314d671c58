"""What pg_stat_statements counts is believed only where it can be a count."""

import math

import numpy as np
import psycopg
import pytest

from pgdyno.probes.statements import _table

HONEST = (5.0, 12.5, 0.1, 0.0, 0.0, 5.0, math.nan, 40.0)


def test_an_unknown_moment_is_no_lie():
    assert _table([HONEST, HONEST]).shape == (8, 2)
    assert np.isnan(_table([(*HONEST[:6], None, HONEST[7])])[6, 0])
    assert _table([]).shape == (8, 0)


@pytest.mark.parametrize("lie", [-1.0, math.nan, math.inf, -math.inf, 1e308, None, "x"])
@pytest.mark.parametrize("column", [0, 1, 5, 7])
def test_what_counts_nothing_is_the_servers_error(column, lie):
    with pytest.raises(psycopg.DataError):
        _table([HONEST, (*HONEST[:column], lie, *HONEST[column + 1 :])])
