"""The first rows of the nine tables, by the rules of clause 4.3.3. The same numbers give the same rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pgdyno.workloads.tprocc.binary_copy import (
    Bytes,
    CopyColumn,
    Int64s,
    constant,
    encode,
    fraction,
    integers,
    money,
    nullable,
    texts,
)

ITEMS, DISTRICTS, CUSTOMERS = 100_000, 10, 3_000
FIRST_UNDELIVERED = 2_101
"""Orders from this one on are not delivered yet: 900 of each district."""
INITIAL_LINES_MONEY = 999_999
SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
EPOCH_US = 631_152_000_000_000
"""The moment of the load in the data, 2020-01-01, in microseconds since 2000: a load must not depend on the clock."""
_CHUNK = 20_000
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_POOL = 1 << 16
_ORIGINAL = np.frombuffer(b"ORIGINAL", np.uint8)


class RowSource:
    """Random numbers and texts of one table and warehouse."""

    def __init__(self, *key: int) -> None:
        self.random = np.random.default_rng([1997, *key])
        pool = np.random.default_rng(1997).choice(np.frombuffer(_LETTERS, np.uint8), _POOL + 1024)
        self._pool = pool

    def integers(self, low: int, high: int, count: int) -> Int64s:
        """Return numbers of `low` to `high`, both included."""
        return self.random.integers(low, high, count, endpoint=True)

    def letters(self, low: int, high: int, count: int) -> CopyColumn:
        """Return texts of `low` to `high` letters and digits."""
        cells = self._cells(high, count)
        return texts(cells, None if low == high else self.integers(low, high, count))

    def digits(self, width: int, count: int) -> Bytes:
        """Return texts of `width` digits."""
        return (self.random.integers(0, 10, (count, width)) + ord("0")).astype(np.uint8)

    def data(self, count: int) -> CopyColumn:
        """Return texts of 26 to 50 letters, every tenth with ORIGINAL somewhere inside."""
        cells, lengths = self._cells(50, count), self.integers(26, 50, count)
        marked = np.flatnonzero(self.random.random(count) < 0.1)
        places = (self.random.random(len(marked)) * (lengths[marked] - 7)).astype(np.int64)
        cells[marked[:, None], places[:, None] + np.arange(8)] = _ORIGINAL
        return texts(cells, lengths)

    def _cells(self, width: int, count: int) -> Bytes:
        cells: Bytes = sliding_window_view(self._pool, width)[self.random.integers(0, _POOL, count)]
        return cells.copy()


def last_name(number: int) -> str:
    """Return the last name of 0 to 999: one syllable for each of its three digits (clause 4.3.2.3)."""
    return "".join(SYLLABLES[int(digit)] for digit in f"{number:03d}")


def order_shape(warehouse: int) -> tuple[Int64s, Int64s]:
    """Return customer and number of lines of the first orders of a warehouse, district by district."""
    source = RowSource(7, warehouse)
    customers = np.concatenate([source.random.permutation(CUSTOMERS) + 1 for _ in range(DISTRICTS)])
    return customers, source.integers(5, 15, DISTRICTS * CUSTOMERS)


def item_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `item`: 100,000, whatever the number of warehouses."""
    del warehouses
    source, n = RowSource(1), ITEMS
    yield encode(
        [
            integers(np.arange(1, n + 1)),
            integers(source.integers(1, 10_000, n)),
            source.letters(14, 24, n),
            money(source.integers(100, 10_000, n)),
            source.data(n),
        ]
    )


def warehouse_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `warehouse`."""
    source, n = RowSource(2), warehouses
    yield encode(
        [
            integers(np.arange(1, n + 1)),
            source.letters(6, 10, n),
            *_address(source, n),
            fraction(source.integers(0, 2_000, n)),
            money(np.full(n, 30_000_000)),
        ]
    )


def district_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `district`: ten of each warehouse."""
    source, n = RowSource(3), DISTRICTS * warehouses
    yield encode(
        [
            integers(np.tile(np.arange(1, DISTRICTS + 1), warehouses)),
            integers(np.repeat(np.arange(1, warehouses + 1), DISTRICTS)),
            source.letters(6, 10, n),
            *_address(source, n),
            fraction(source.integers(0, 2_000, n)),
            money(np.full(n, 3_000_000)),
            integers(np.full(n, CUSTOMERS + 1)),
        ]
    )


def stock_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `stock`: every item in every warehouse."""
    for warehouse in range(1, warehouses + 1):
        source = RowSource(4, warehouse)
        for first in range(1, ITEMS + 1, _CHUNK):
            n = min(_CHUNK, ITEMS + 1 - first)
            zeros = np.zeros(n, np.int64)
            yield encode(
                [
                    integers(np.arange(first, first + n)),
                    integers(np.full(n, warehouse)),
                    integers(source.integers(10, 100, n)),
                    *(source.letters(24, 24, n) for _ in range(DISTRICTS)),
                    integers(zeros, 8),
                    integers(zeros),
                    integers(zeros),
                    source.data(n),
                ]
            )


def customer_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `customer`: 3,000 of each district; the first 1,000 have the names 0 to 999."""
    for warehouse in range(1, warehouses + 1):
        source = RowSource(5, warehouse)
        for district in range(1, DISTRICTS + 1):
            n = CUSTOMERS
            drawn = nurand(source.random, A_NAME, 0, 999, C_NAME_LOAD, n - 1_000)
            names = np.concatenate([np.arange(1_000), drawn])
            credit = np.where(source.random.random(n)[:, None] < 0.1, [[66, 67]], [[71, 67]]).astype(np.uint8)
            yield encode(
                [
                    integers(np.arange(1, n + 1)),
                    integers(np.full(n, district)),
                    integers(np.full(n, warehouse)),
                    source.letters(8, 16, n),
                    constant(b"OE", n),
                    texts(_NAMES[names], _NAME_LENGTHS[names]),
                    *_address(source, n),
                    texts(source.digits(16, n)),
                    _moment(n),
                    texts(credit),
                    money(np.full(n, 5_000_000)),
                    fraction(source.integers(0, 5_000, n)),
                    money(np.full(n, -1_000)),
                    money(np.full(n, 1_000)),
                    integers(np.ones(n, np.int64)),
                    integers(np.zeros(n, np.int64)),
                    source.letters(300, 500, n),
                ]
            )


def history_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `history`: one payment of each customer."""
    n = DISTRICTS * CUSTOMERS
    districts = integers(np.repeat(np.arange(1, DISTRICTS + 1), CUSTOMERS))
    customers = integers(np.tile(np.arange(1, CUSTOMERS + 1), DISTRICTS))
    for warehouse in range(1, warehouses + 1):
        source, at = RowSource(6, warehouse), integers(np.full(n, warehouse))
        letters = source.letters(12, 24, n)
        yield encode([customers, districts, at, districts, at, _moment(n), money(np.full(n, 1_000)), letters])


def order_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `orders`: one of each customer, in random order."""
    numbers, districts = _order_keys()
    delivered = numbers < FIRST_UNDELIVERED
    for warehouse in range(1, warehouses + 1):
        customers, lines = order_shape(warehouse)
        source, n = RowSource(8, warehouse), len(numbers)
        yield encode(
            [
                integers(numbers),
                integers(districts),
                integers(np.full(n, warehouse)),
                integers(customers),
                _moment(n),
                nullable(integers(source.integers(1, 10, n)), delivered),
                integers(lines),
                integers(np.ones(n, np.int64)),
            ]
        )


def new_order_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `new_order`: the last 900 orders of each district."""
    numbers, districts = _order_keys()
    waiting = numbers >= FIRST_UNDELIVERED
    numbers, districts = numbers[waiting], districts[waiting]
    for warehouse in range(1, warehouses + 1):
        yield encode([integers(numbers), integers(districts), integers(np.full(len(numbers), warehouse))])


def order_line_rows(warehouses: int) -> Iterator[bytes]:
    """Yield the rows of `order_line`: 5 to 15 of each order."""
    numbers, districts = _order_keys()
    for warehouse in range(1, warehouses + 1):
        _, lines = order_shape(warehouse)
        source = RowSource(9, warehouse)
        for first in range(0, len(numbers), CUSTOMERS):
            part = slice(first, first + CUSTOMERS)
            counts = lines[part]
            n = int(counts.sum())
            orders = np.repeat(numbers[part], counts)
            delivered = orders < FIRST_UNDELIVERED
            place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts) + 1
            amounts = np.where(delivered, 0, source.integers(1, INITIAL_LINES_MONEY, n))
            yield encode(
                [
                    integers(orders),
                    integers(np.repeat(districts[part], counts)),
                    integers(np.full(n, warehouse)),
                    integers(place),
                    integers(source.integers(1, ITEMS, n)),
                    integers(np.full(n, warehouse)),
                    nullable(_moment(n), delivered),
                    integers(np.full(n, 5)),
                    money(amounts),
                    source.letters(24, 24, n),
                ]
            )


def _order_keys() -> tuple[Int64s, Int64s]:
    numbers = np.tile(np.arange(1, CUSTOMERS + 1), DISTRICTS)
    return numbers, np.repeat(np.arange(1, DISTRICTS + 1), CUSTOMERS)


def _address(source: RowSource, count: int) -> tuple[CopyColumn, ...]:
    zip_code = np.concatenate([source.digits(4, count), np.full((count, 5), ord("1"), np.uint8)], axis=1)
    return (*(source.letters(10, 20, count) for _ in range(3)), source.letters(2, 2, count), texts(zip_code))


def _moment(count: int) -> CopyColumn:
    return integers(np.full(count, EPOCH_US), 8)


def _names() -> tuple[Bytes, Int64s]:
    words = [last_name(number).encode() for number in range(1_000)]
    lengths: NDArray[np.int64] = np.array([len(word) for word in words], np.int64)
    cells = np.zeros((1_000, int(lengths.max())), np.uint8)
    for row, word in enumerate(words):
        cells[row, : len(word)] = np.frombuffer(word, np.uint8)
    return cells, lengths


_NAMES, _NAME_LENGTHS = _names()
ROWS: Mapping[str, Callable[[int], Iterator[bytes]]] = {
    "order_line": order_line_rows,
    "stock": stock_rows,
    "customer": customer_rows,
    "orders": order_rows,
    "history": history_rows,
    "new_order": new_order_rows,
    "item": item_rows,
    "district": district_rows,
    "warehouse": warehouse_rows,
}
"""Each table with what makes its rows, the largest first."""


A_NAME, A_CUSTOMER, A_ITEM = 255, 1023, 8191
"""The constant A for a last name (0 to 999), a customer (1 to 3000) and an item (1 to 100,000): clause 2.1.6."""
C_NAME_LOAD = 173
"""C of the last names in the data. Any number of 0 to 255 would do, but another one would be other data."""
_NEAREST, _FARTHEST = 65, 119
_REFUSED = (96, 112)


@dataclass(frozen=True, slots=True)
class RunConstants:
    """C of each field in one run: last name, customer, item."""

    name: int
    customer: int
    item: int


def allowed(load: int, run: int) -> bool:
    """Tell whether C of the names may be `run` when the data were loaded with `load`: clause 2.1.6.1."""
    distance = abs(run - load)
    return _NEAREST <= distance <= _FARTHEST and distance not in _REFUSED


def run_constants(seed: int) -> RunConstants:
    """Return the constants that belong to a seed: equal for both sides of a comparison, which have the same seed."""
    drawn = np.random.default_rng(seed)
    names = [run for run in range(A_NAME + 1) if allowed(C_NAME_LOAD, run)]
    name, customer, item = (int(number) for number in drawn.integers(0, [len(names), A_CUSTOMER + 1, A_ITEM + 1]))
    return RunConstants(names[name], customer, item)


def nurand(generator: np.random.Generator, a: int, low: int, high: int, c: int, count: int) -> NDArray[np.int64]:
    """Return `count` numbers of `low` to `high`: ((random(0, a) | random(low, high)) + c) modulo the range, + low.

    `generator` draws the random ones. `a` and `c` are the constants A and C of clause 2.1.6; A goes with the range.
    """
    mixed = generator.integers(0, a, count, endpoint=True) | generator.integers(low, high, count, endpoint=True)
    found: NDArray[np.int64] = (mixed + c) % (high - low + 1) + low
    return found
