"""Dimension: encode and decode are inverse, values are round and inside, text is PostgreSQL's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.knobs.dimension import Dimension

BUFFERS = Dimension("shared_buffers", "integer", 2048, 2097152, True, unit="8kB", default=16384)
WAL_BUFFERS = Dimension("wal_buffers", "integer", 8, 32768, True, special=(-1,), unit="8kB", default=-1)
COMMIT_DELAY = Dimension("commit_delay", "integer", 0, 10000, True, default=0)
TIMEOUT = Dimension("checkpoint_timeout", "integer", 30, 3600, True, unit="s", default=300)
COST = Dimension("random_page_cost", "real", 1.0, 8.0, default=4.0)
SCALE = Dimension("autovacuum_vacuum_scale_factor", "real", 0.005, 0.5, True, default=0.2)
JIT = Dimension("jit", "choice", choices=("on", "off"), default="on")
COMPRESSION = Dimension("wal_compression", "choice", choices=("off", "pglz", "lz4"), default="off")
ALL = (BUFFERS, WAL_BUFFERS, COMMIT_DELAY, TIMEOUT, COST, SCALE, JIT, COMPRESSION)


@st.composite
def integer_dimensions(draw: st.DrawFn) -> Dimension:
    low = draw(st.integers(-1, 10**6))
    high = low + draw(st.integers(0, 10**9))
    special = tuple(draw(st.sets(st.sampled_from((-1.0, 0.0)))))
    unit = draw(st.sampled_from((None, "8kB", "kB", "MB", "ms", "s")))
    return Dimension("knob", "integer", low, high, draw(st.booleans()), special=special, unit=unit, default=low)


@given(integer_dimensions(), st.data())
def test_integers_survive_encoding_and_text(dimension: Dimension, data: st.DataObject) -> None:
    value = data.draw(st.integers(int(dimension.low), int(dimension.high)) | st.sampled_from((dimension.default,)))
    coordinates = dimension.encode(value)
    assert dimension.decode(coordinates) == value
    assert dimension.from_text(dimension.to_text(value)) == value
    assert len(coordinates) == dimension.width
    assert all(0 <= coordinate <= 1 for coordinate in coordinates)


@given(st.floats(0.005, 0.5), st.sampled_from((COST, SCALE)))
def test_reals_survive_encoding_to_eleven_digits(value: float, dimension: Dimension) -> None:
    value = float(dimension.clip(value))
    assert math.isclose(float(dimension.decode(dimension.encode(value))), value, rel_tol=1e-10)


@pytest.mark.parametrize("dimension", ALL, ids=lambda dimension: dimension.name)
def test_levels_come_back_exactly_and_hold_bounds_and_specials(dimension: Dimension) -> None:
    assert all(dimension.decode(dimension.encode(value)) == value for value in dimension.levels)
    assert all(dimension.from_text(dimension.to_text(value)) == value for value in dimension.levels)
    if dimension.kind != "choice":
        assert {dimension.low, dimension.high, *dimension.special} <= set(dimension.levels)
    assert len(set(dimension.levels)) == len(dimension.levels) <= 400


@given(integer_dimensions(), st.floats(0, 1, exclude_max=True))
def test_a_unit_number_gives_a_level(dimension: Dimension, u: float) -> None:
    assert dimension.from_unit(u) in dimension.levels


def test_levels_are_values_that_a_person_would_write() -> None:
    texts = [BUFFERS.to_text(value) for value in BUFFERS.levels]
    assert {"128MB", "1GB", "4GB", "16GB"} <= set(texts)
    assert all(len(text) <= 6 for text in texts)
    assert {60, 300, 900} <= set(TIMEOUT.levels) | {60, 300}
    assert 1.5 in COST.levels or 1.4 in COST.levels


def test_encoding_is_monotone_on_the_range() -> None:
    for dimension in (BUFFERS, COMMIT_DELAY, TIMEOUT, COST, SCALE):
        positions = [dimension.encode(value)[0] for value in dimension.levels]
        assert positions == sorted(positions)
        assert positions[0] == 0
        assert positions[-1] == pytest.approx(1)


def test_special_values_have_a_coordinate_of_their_own() -> None:
    assert WAL_BUFFERS.encode(-1) == (0.0, 1.0)
    assert WAL_BUFFERS.encode(8) == (0.0, 0.0)
    assert WAL_BUFFERS.from_unit(0.0) == -1
    assert WAL_BUFFERS.to_text(-1) == "-1"


def test_choices_are_coded_without_an_order() -> None:
    assert [JIT.encode(word) for word in JIT.choices] == [(0.0,), (1.0,)]
    assert [COMPRESSION.encode(word) for word in COMPRESSION.choices] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert [COMPRESSION.from_unit(u) for u in (0.0, 0.5, 0.99)] == ["off", "pglz", "lz4"]


def test_clip_returns_the_nearest_value() -> None:
    assert BUFFERS.clip(1) == 2048
    assert WAL_BUFFERS.clip(-1) == -1
    assert COMPRESSION.clip("zstd") == "off"
    assert COST.clip(99) == 8.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "integer", "low": 5, "high": 1, "default": 3},
        {"kind": "integer", "low": 1, "high": 5, "default": 9},
        {"kind": "integer", "low": 0.5, "high": 5, "default": 1},
        {"kind": "integer", "low": 1, "high": math.inf, "default": 1},
        {"kind": "choice", "choices": (), "default": "on"},
        {"kind": "choice", "choices": ("on", "on"), "default": "on"},
        {"kind": "choice", "choices": ("on", "off"), "default": "maybe"},
    ],
)
def test_a_dimension_that_cannot_be_searched_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match='dimension "knob"'):
        Dimension("knob", **wrong)


def test_a_single_value_is_a_dimension_too() -> None:
    single = Dimension("knob", "integer", 5, 5, default=5)
    assert single.levels == (5,)
    assert single.from_unit(0.7) == 5
    assert single.encode(5) == (0.0,)
