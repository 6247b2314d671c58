"""Whole numbers out of a block of lines of digits, by NumPy on the bytes: eight digits of every line at a time. Pure.

A line's words are separated by one space each, and are read from its end to its beginning. The eight bytes that end
with a word are put together from two aligned words of the memory; what stands before the number is told by a bit that
digits have and spaces have not, and is cleared; three multiplications add up neighbouring digits, pairs and fours (the
method of Mula, "SIMD-ized faster parse of decimal digits"). So only the ends of lines are searched for. About ten
million lines of six words a second; before, with every space searched for, it was seven.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Uint64s = NDArray[np.uint64]

MOST_DIGITS = 15
_EIGHT = 8
_PAD = 160
"""Bytes before the first line: as many as words can be looked for there when lines are too short."""
_SPACE, _NEWLINE, _ZERO, _NINE = 32, 10, 48, 57
_EACH = np.uint64(0x0101010101010101)
_COUNTER, _EPOCH, _HUNDRED_MILLION = 1, 4, np.uint64(10**8)
_SCRIPT_AND_EPOCH = 13
_AROUND_EPOCH, _USUAL_THERE = np.uint64(0x1010FF10FF << 24), np.uint64(0x1010201020 << 24)
"""The bytes ` s ee`: whole where a space must be, elsewhere the bit of digits."""
_IS_DIGIT, _VALUE = np.uint64(0x10) * _EACH, np.uint64(0x0F) * _EACH


def read_columns(data: bytes, columns: int, *, counter: bool = True) -> Int64s | None:
    """Return the numbers of whole lines, shape (columns, lines), or None when any line is not of pgbench's form.

    A line has `columns` words (six or more) of 1 to 15 digits. Without `counter` the second column may be left at 0.
    """
    raw = np.frombuffer(b"0" * (_PAD + -len(data) % _EIGHT - 1) + b"\n" + data, np.uint8)
    marks = np.flatnonzero(raw == _NEWLINE)
    before, ends, lines = marks[:-1], marks[1:], marks.size - 1
    if raw.max() > _NINE or raw[-1] != _NEWLINE or np.count_nonzero(raw < _ZERO) != lines * columns + 1:
        return None
    if np.count_nonzero(raw == _SPACE) != lines * (columns - 1):
        return None
    words, table = raw.view("<u8"), np.zeros((columns, lines), np.int64)
    column = columns
    while column:
        if column == _EPOCH + 1 and _usual_epoch(words, ends, table[column - 2 : column]):
            column, ends = column - 2, ends - _SCRIPT_AND_EPOCH
        elif column == _COUNTER + 1 and not counter and _usual_client(words, before, ends, table[0]):
            column, ends = 0, before
        else:
            column -= 1
            table[column], widths = _numbers_before(words, ends)
            if widths.min(initial=1) < 1 or widths.max(initial=1) > MOST_DIGITS:
                return None
            ends = ends - widths - 1
    return table if (ends == before).all() else None


def _usual_epoch(words: Uint64s, ends: Int64s, table: Int64s) -> bool:
    """Fill in script and epoch, shape (2, lines), where all are ` s eeeeeeeeee` before these bytes."""
    low, high = _window(words, ends), _window(words, ends - _EIGHT)
    if not low.size or ((high & _AROUND_EPOCH) != _USUAL_THERE).any():
        return False
    if low[0] == low[-1] and (low == low[0]).all():
        low = low[:1]  # of one second, as usual
    if (~low & _IS_DIGIT).any():
        return False
    table[0] = (high >> np.uint64(32)) & np.uint64(15)
    tens = high >> np.uint64(48)
    table[1] = ((tens & np.uint64(15)) * np.uint64(10) + ((tens >> np.uint64(8)) & np.uint64(15))) * _HUNDRED_MILLION
    table[1] += _eight_digits(low & _VALUE)
    return True


def _usual_client(words: Uint64s, before: Int64s, ends: Int64s, table: Int64s) -> bool:
    """Fill in the client, shape (lines,), where all lines are `client count` up to these bytes, of 1 to 7 digits."""
    starts = before + 1
    head = _window(words, starts + _EIGHT)
    gaps = ~head & _IS_DIGIT
    first = gaps & -gaps
    widths = ((((first - np.uint64(1)) & _EACH) * _EACH) >> np.uint64(56)) - np.uint64(1)
    if not first.all() or widths.min(initial=1) < 1 or (starts + widths.view(np.int64) + 1 >= ends).any():
        return False
    table[:] = _eight_digits((head << ((np.uint64(8) - widths) << np.uint64(3))) & _VALUE)
    return True


def _window(words: Uint64s, ends: Int64s) -> Uint64s:
    """Return the eight bytes before these."""
    at, bits = ends >> 3, ((ends & 7) << 3).view(np.uint64)
    window: Uint64s = words[at - 1] >> bits
    window |= words[np.minimum(at, words.size - 1)] << (np.uint64(64) - bits)  # a shift by 64 gives 0
    return window


def _numbers_before(words: Uint64s, ends: Int64s, *, wide: bool = True) -> tuple[Int64s, Int64s]:
    """Return the numbers that end before these bytes and how many digits they have; the last 16 count, if `wide`."""
    window = _window(words, ends)
    before = ~window & _IS_DIGIT
    for shift in (8, 16, 32):  # the first digit is the lowest byte: now all bytes up to the last that is none
        before |= before >> np.uint64(shift)
    bit = before >> np.uint64(4)
    widths = _EIGHT - ((bit * _EACH) >> np.uint64(56)).view(np.int64)
    window &= _VALUE ^ (before - bit)
    numbers = _eight_digits(window)
    if wide and widths.max(initial=0) == _EIGHT:
        longer = np.flatnonzero(widths == _EIGHT)
        high, more = _numbers_before(words, ends[longer] - _EIGHT, wide=False)
        numbers[longer] += high * 100_000_000
        widths[longer] += more
    return numbers, widths


def _eight_digits(digits: Uint64s) -> Int64s:
    """Return the numbers of eight digits each, a byte a digit, the first in the lowest byte."""
    pairs = ((digits * np.uint64(10 * 2**8 + 1)) >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    fours = ((pairs * np.uint64(100 * 2**16 + 1)) >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    return ((fours * np.uint64(10_000 * 2**32 + 1)) >> np.uint64(32)).view(np.int64)
