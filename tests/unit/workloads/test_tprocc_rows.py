"""The first population of the TPROC-C-like load, decoded from what COPY would be sent."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fix_postgres import NIGHT
from pgdyno.workloads.tprocc import binary_copy as copy
from pgdyno.workloads.tprocc import rows
from pgdyno.workloads.tprocc.rows import C_NAME_LOAD, allowed, nurand, run_constants

Cell = bytes | None


def decode(data: bytes) -> Iterator[list[Cell]]:
    at = 0
    while at < len(data):
        (columns,) = struct.unpack_from(">h", data, at)
        at += 2
        row: list[Cell] = []
        for _ in range(columns):
            (length,) = struct.unpack_from(">i", data, at)
            at += 4
            row.append(None if length < 0 else data[at : at + length])
            at += max(length, 0)
        yield row


def integer(cell: Cell) -> int:
    assert cell is not None
    return int.from_bytes(cell, "big", signed=True)


def numeric(cell: Cell) -> Decimal:
    assert cell is not None
    count, weight, sign, scale = struct.unpack_from(">hhHh", cell)
    digits = struct.unpack_from(f">{count}h", cell, 8)
    value = sum((Decimal(digit) * Decimal(10_000) ** (weight - n) for n, digit in enumerate(digits)), Decimal(0))
    return (-value if sign == 0x4000 else value).quantize(Decimal(10) ** -scale)


def table(name: str, part: int = 0) -> list[list[Cell]]:
    return [row for number, data in enumerate(rows.ROWS[name](1)) if number == part for row in decode(data)]


@given(st.lists(st.integers(-9_999_999_999, 9_999_999_999), min_size=1))
def test_money_is_exact_to_the_cent(cents: list[int]) -> None:
    data = copy.encode([copy.money(np.array(cents, np.int64))])
    assert [numeric(row[0]) for row in decode(data)] == [Decimal(cent) / 100 for cent in cents]


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.text("abc", max_size=9), st.booleans()), min_size=1))
def test_rows_come_back_as_they_were(values: list[tuple[int, str, bool]]) -> None:
    cells = np.zeros((len(values), 9), np.uint8)
    for row, (_, text, _) in enumerate(values):
        cells[row, : len(text)] = np.frombuffer(text.encode(), np.uint8)
    known = np.array([is_known for _, _, is_known in values])
    columns = [
        copy.integers(np.array([number for number, _, _ in values], np.int64)),
        copy.nullable(copy.texts(cells, np.array([len(text) for _, text, _ in values], np.int64)), known),
    ]
    found = [(integer(row[0]), row[1]) for row in decode(copy.encode(columns))]
    assert found == [(number, text.encode() if is_known else None) for number, text, is_known in values]


@pytest.mark.requirement("R-TPC-03")
def test_the_first_thousand_customers_of_a_district_have_the_names_0_to_999() -> None:
    customers = table("customer", part=3)
    assert {integer(row[1]) for row in customers} == {4}
    assert [row[5] for row in customers[:1000]] == [rows.last_name(n).encode() for n in range(1000)]
    assert rows.last_name(371) == "PRICALLYOUGHT"
    later = Counter(row[5] for row in customers[1000:])
    assert sum(later.values()) == 2000
    assert max(later.values()) > 10, "drawn non-uniformly: some names are far more frequent than 2 in 1,000"
    assert {numeric(row[16]) for row in customers} == {Decimal("-10.00")}


def test_order_lines_are_as_many_as_their_orders_say() -> None:
    parts = range(10) if NIGHT else (0, 9)  # a district each
    orders, lines = table("orders"), [row for part in parts for row in table("order_line", part)]
    counted = Counter((integer(row[1]), integer(row[0])) for row in lines)
    asked = {(integer(row[1]), integer(row[0])): integer(row[6]) for row in orders}
    assert counted == {
        (district, number): count for (district, number), count in asked.items() if district - 1 in parts
    }
    assert {integer(row[6]) for row in orders} == set(range(5, 16))
    waiting = {(integer(row[1]), integer(row[0])) for row in table("new_order")}
    assert waiting == {(integer(row[1]), integer(row[0])) for row in orders if row[5] is None}
    assert len(waiting) == 9_000
    assert all((row[6] is None) == (integer(row[0]) >= 2_101) for row in lines)
    assert all((numeric(row[8]) == 0) == (integer(row[0]) < 2_101) for row in lines)
    customers = [integer(row[3]) for row in orders[:3000]]
    assert sorted(customers) == list(range(1, 3001)), "every customer has one first order"
    assert customers != sorted(customers)


def test_every_tenth_stock_row_says_original() -> None:
    stock = table("stock")
    marked = sum(b"ORIGINAL" in (row[16] or b"") for row in stock) / len(stock)
    assert 0.08 < marked < 0.12
    assert {len(row[16] or b"") for row in stock} == set(range(26, 51))


def test_two_loads_send_the_same_bytes_and_two_warehouses_differ() -> None:
    assert list(rows.ROWS["orders"](1)) == list(rows.ROWS["orders"](1))
    first, second = list(rows.ROWS["orders"](2))
    assert first != second
    assert first == next(iter(rows.ROWS["orders"](1)))


@given(st.integers(0, 10**9))
def test_constants_of_a_run_keep_their_distance_from_the_load(seed: int) -> None:
    constants = run_constants(seed)
    distance = abs(constants.name - C_NAME_LOAD)
    assert 65 <= distance <= 119
    assert distance not in (96, 112)
    assert (0 <= constants.name <= 255, 0 <= constants.customer <= 1023, 0 <= constants.item <= 8191) == (True,) * 3
    assert constants == run_constants(seed)


@given(st.integers(0, 255), st.integers(0, 255))
def test_the_rule_is_that_of_the_specification(load: int, run: int) -> None:
    assert allowed(load, run) == (abs(load - run) in set(range(65, 120)) - {96, 112})


@given(st.integers(0, 8191), st.integers(1, 100))
def test_non_uniform_numbers_stay_in_their_range(c: int, low: int) -> None:
    drawn = nurand(np.random.default_rng(1), 1023, low, 3000, c, 500)
    assert low <= drawn.min() <= drawn.max() <= 3000
