"""Whole numbers out of a block of lines of digits, by NumPy on the bytes: eight digits of every line at a time. Pure.

A line's words are separated by one space each, and are read from its end to its beginning; only the ends of lines are
searched for. The eight bytes that end with a word are fetched with the last digit lowest: the lowest byte without a bit
that digits have and spaces have not is where the word begins, and what lies above it is cleared. Three multiplications
add up neighbouring digits, pairs and fours (the method of Mula, "SIMD-ized faster parse of decimal digits").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Uint64s = NDArray[np.uint64]

_EIGHT = 8
FIRST = 160
"""Bytes before the first line: as many as words can be looked for there when lines are too short."""
_BEFORE = b"0" * (FIRST - 1) + b"\n"
_SPACE, _NEWLINE, _ZERO, _NINE = 32, 10, 48, 57
_EACH = np.uint64(0x0101010101010101)
_COUNTER, _EPOCH = 1, 4
_SCRIPT_AND_EPOCH = 13
_AROUND_EPOCH, _USUAL_THERE = np.uint64(0x1010101010FF10FF), np.uint64(0x1010101010201020)
"""The bytes ` s eeeee`: whole where a space must be, elsewhere the bit of digits."""
_PLACES = np.uint64(0x0001020304050607)
"""Times a word in which one byte is 1: the highest byte says which."""
_IS_DIGIT, _VALUE = np.uint64(0x10) * _EACH, np.uint64(0x0F) * _EACH
_ONE, _BYTE, _THREE_BYTES, _TOP = (np.uint64(number) for number in (1, 8, 24, 56))
_STEPS = (
    (np.uint64(10 + 2**8), _BYTE, np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100 + 2**16), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000 + 2**32), np.uint64(32), None),
)
_EACH_4 = np.uint32(0x01010101)
_IS_DIGIT_4, _VALUE_4 = np.uint32(0x10) * _EACH_4, np.uint32(0x0F) * _EACH_4
_ONE_4, _THREE_4, _FIVE_4, _TOP_4 = np.uint32(1), np.uint32(3), np.uint32(5), np.uint32(24)


def padded(size: int) -> bytearray:
    """Return room for so many bytes of lines from `FIRST` on, and around them what `read_columns` needs."""
    return bytearray(_BEFORE + bytes(size + 2 * _EIGHT))


def read_columns(memory: bytearray, end: int, columns: int, *, counter: bool = True) -> Int64s | None:
    """Return the numbers of whole lines, shape (columns, lines), or None when any line is not of pgbench's form.

    The lines are in `padded` memory, from `FIRST` to `end`; what follows `end` may be overwritten. A line has `columns`
    words (six or more) of 1 to 15 digits. Without `counter` the second column may be left at 0.
    """
    size = end + 2 * _EIGHT - end % _EIGHT
    memory[end:size] = b"0" * (size - end)
    raw = np.frombuffer(memory, np.uint8, size)
    if raw.max() > _NINE or raw[end - 1] != _NEWLINE:
        return None
    is_there = raw == _NEWLINE
    marks = _marked(is_there)
    before, ends, lines = marks[:-1], marks[1:], marks.size - 1
    if np.count_nonzero(np.less(raw, _ZERO, out=is_there)) != lines * columns + 1:
        return None
    if np.count_nonzero(np.equal(raw, _SPACE, out=is_there)) != lines * (columns - 1):
        return None
    tails, heads = _eights(memory, marks - _EIGHT, 2)
    window: Uint64s | None = tails[1:]
    table = np.empty((columns, lines), np.int64)
    table[_COUNTER] = 0
    column = columns
    while column:
        if column == _EPOCH + 1 and (times := _usual_epoch(memory, ends, table[column - 2 : column])) is not None:
            column, ends, window = column - 2, ends - _SCRIPT_AND_EPOCH, times
        elif column == _COUNTER + 1 and not counter and _usual_client(heads[:-1], ends - before, table[0]):
            return table
        else:
            column -= 1
            if not column:
                raw[before] = _SPACE  # the first word begins after a line's end, all others after a space
            found = _numbers(memory, ends, window)
            raw[before] = _NEWLINE
            if found is None:
                return None
            (table[column], ends), window = found, None
    return table if (ends == before).all() else None


def _marked(is_there: NDArray[np.bool_]) -> Int64s:
    """Return where the bytes are true, at half the cost of looking at each; of two among eight only one is found."""
    words = is_there.view(np.uint64)
    places = np.flatnonzero(words != 0)
    marked = words[places]
    marked *= _PLACES
    marked >>= _TOP
    places <<= 3
    places += marked.view(np.int64)
    return places


def _eights(memory: bytearray, at: Int64s, count: int) -> Uint64s:
    """Return the bytes from each place on, in so many eights, shape (count, places).

    NumPy copies a record of forty bytes in the time of one of eight where they do not begin at a multiple of eight.
    """
    size = count * _EIGHT
    records = np.ndarray((len(memory) - size + 1,), f"V{size}", memory, 0, (1,))
    return records[at].view("<u8").reshape(-1, count).T


def _usual_epoch(memory: bytearray, ends: Int64s, table: Int64s) -> Uint64s | None:
    """Fill in script and epoch, shape (2, lines), where all are ` s eeeeeeeeee` before these bytes; None elsewhere.

    Returns the eight bytes before that of each line.
    """
    if not ends.size:
        return None
    eights = _eights(memory, ends - _SCRIPT_AND_EPOCH - _EIGHT, 3)
    times: Uint64s = eights[0]
    high, low = eights[1:]
    low = low << _THREE_BYTES  # five digits, as the five last of `high`
    if (low == low[0]).all() and (high == high[0]).all():  # of one second, and of one script
        high, low = high[:1], low[:1]
    if ((high & _AROUND_EPOCH) != _USUAL_THERE).any():
        return None
    scripts = (high >> _BYTE) & np.uint64(15)
    high = high >> _THREE_BYTES << _THREE_BYTES
    firsts = np.append(0, np.flatnonzero((low[1:] != low[:-1]) | (high[1:] != high[:-1])) + 1)
    low, high = low[firsts], high[firsts]  # few: many lines have the same second
    if (~low & (_IS_DIGIT << _THREE_BYTES)).any():
        return None
    high, low = (_eight_digits(five.byteswap() & _VALUE) for five in (high, low))
    epochs = high * 100_000 + low
    table[0] = scripts if scripts.size > 1 else scripts[0]
    table[1] = np.repeat(epochs, np.diff(firsts, append=ends.size)) if epochs.size > 1 else epochs[0]
    return times


def _usual_client(eights: Uint64s, sizes: Int64s, table: Int64s) -> bool:
    """Fill in the client, shape (lines,), where all lines are `client count` up to these sizes, of 1 to 3 digits.

    `eights` are the bytes from the end of the line before on.
    """
    heads = (eights >> _BYTE).astype(np.uint32)
    gaps = ~heads
    gaps &= _IS_DIGIT_4
    upto = gaps - _ONE_4
    upto ^= gaps
    heads &= upto
    heads &= _VALUE_4
    upto &= _EACH_4
    upto *= _EACH_4
    upto >>= _TOP_4  # the bytes of the client and of the space after it
    if gaps.min(initial=1) == 0 or upto.min(initial=2) < 2:
        return False
    if sizes.min(initial=6) < 2 + int(upto.max(initial=2)):
        return False
    np.subtract(_FIVE_4, upto, out=upto)
    upto <<= _THREE_4
    heads <<= upto  # the last digit is the highest byte
    heads *= np.uint32(10 * 2**8 + 1)
    heads >>= np.uint32(8)
    heads &= np.uint32(0x00FF00FF)
    heads *= np.uint32(100 * 2**16 + 1)
    heads >>= np.uint32(16)
    table[:] = heads
    return True


def _numbers(
    memory: bytearray, ends: Int64s, window: Uint64s | None = None, *, wide: bool = True
) -> tuple[Int64s, Int64s] | None:
    """Return the numbers of 1 to 15 digits that end before these bytes, and where the space before each is.

    None where a word is empty or longer. Not `wide` are the seven digits, or none, before eight others.
    """
    if window is None:
        (window,) = _eights(memory, ends - _EIGHT, 1)
    digits = window.byteswap()
    gaps = ~digits
    gaps &= _IS_DIGIT
    upto = gaps - _ONE  # 0 becomes all bits
    upto ^= gaps  # up to the bit of the lowest gap; what is kept of a space's byte is 0
    digits &= upto
    digits &= _VALUE
    upto &= _EACH
    upto *= _EACH
    upto >>= _TOP
    begins = ends - upto.view(np.int64)
    numbers = _eight_digits(digits)
    is_longer = gaps.min(initial=1) == 0
    if not wide:
        return None if is_longer else (numbers, begins)
    if upto.min(initial=2) < 2:
        return None
    if is_longer:
        longer = np.flatnonzero(gaps == 0)
        rest = _numbers(memory, ends[longer] - _EIGHT, wide=False)
        if rest is None:
            return None
        numbers[longer] += rest[0] * 100_000_000
        begins[longer] = rest[1]
    return numbers, begins


def _eight_digits(digits: Uint64s) -> Int64s:
    """Return the numbers of eight digits each, a byte a digit, the last in the lowest byte. Overwrites them."""
    for factor, bits, kept in _STEPS:
        digits *= factor
        digits >>= bits
        if kept is not None:
            digits &= kept
    return digits.view(np.int64)
