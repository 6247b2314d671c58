"""Records of csvlog and jsonlog as bytes: where they end, how many there are, of which database. Pure.

A record may have hundreds of megabytes: none is taken apart as a whole, which costs ten times its length.
"""

from __future__ import annotations

import csv
import io
import json
import mmap
import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pgdyno.trace.lines import CSV_COLUMNS

_BLOCK = 1 << 20
"""Bytes that are looked at once; longer records are not parsed."""
_HEAD = 1 << 16
"""Bytes of a record in which its database stands, and most records end."""
_JSON_OBJECT = re.compile(rb'\s*\{(?:[^"{}]++|"(?:[^"\\]++|\\.)*+")*+\}\s*', re.DOTALL)
"""A flat one, as all of PostgreSQL's are; nothing is tried twice, so it takes no memory."""
_JSON_DATABASE = re.compile(rb'"dbname":("(?:[^"\\]|\\.)*")', re.DOTALL)


def count_letters(data: bytes | mmap.mmap, end: int, letter: bytes) -> int:
    """Return how often a letter is there; `bytes.count` is slow where it is often."""
    letters = np.frombuffer(data, np.uint8, end)
    return sum(int(np.count_nonzero(letters[at : at + _BLOCK] == letter[0])) for at in range(0, len(letters), _BLOCK))


class CsvForm:
    """Records of a csvlog: lines whose quotes are even, with the fields of a version."""

    def end(self, data: bytes | mmap.mmap, size: int) -> int:
        """Return where the last whole record ends. Quotes within quotes are doubled, so that an odd number is open."""
        end = data.rfind(b"\n", 0, size) + 1
        odd = count_letters(data, end, b'"') % 2
        while end and odd:
            before = data.rfind(b"\n", 0, end - 1) + 1
            odd ^= data[before:end].count(b'"') % 2
            end = before
        return end

    def records(self, data: bytes | mmap.mmap) -> Iterator[bytes]:
        """Give each record with its line end, the last one as it is."""
        begin, stop, odd = 0, 0, 0
        while stop < len(data):
            line_end = data.find(b"\n", stop) + 1 or len(data)
            odd ^= data[stop:line_end].count(b'"') % 2
            stop = line_end
            if not odd:
                yield data[begin:stop]
                begin = stop
        if begin < stop:
            yield data[begin:stop]

    def count(self, data: bytes) -> int:
        """Return how many records there are: line ends behind an even number of quotes."""
        letters = np.frombuffer(data, np.uint8)
        line_ends, quotes = np.flatnonzero(letters == 10), np.flatnonzero(letters == 34)
        return int((np.searchsorted(quotes, line_ends) % 2 == 0).sum())

    def is_whole(self, record: bytes) -> bool:
        """Tell whether a record has its end, and the fields of a csvlog."""
        return record.count(b'"') % 2 == 0 and self.columns(record) in CSV_COLUMNS

    def columns(self, data: bytes | mmap.mmap) -> int:
        """Return the number of fields of the first record."""
        first = data[: _first_end(data)]
        return len(_fields(first)) if len(first) <= _BLOCK else _unquoted(first, b",") + 1

    def database(self, record: bytes) -> str:
        """Return the database of a record, as it stands there in Latin-1."""
        fields = _fields(record[:_HEAD])
        return fields[2] if len(fields) > 2 else ""


def _fields(record: bytes) -> list[str]:
    """Return the fields of a record, none of what is none."""
    before = csv.field_size_limit(2 * _BLOCK)
    try:
        return next(csv.reader(io.StringIO(record.decode("latin-1"), newline="")), [])
    except csv.Error:
        return []
    finally:
        csv.field_size_limit(before)


def _unquoted(record: bytes, letter: bytes) -> int:
    """Return how often a letter stands outside quotes."""
    return sum(int(np.count_nonzero(is_there)) for _, is_there in _outside_quotes(record, letter, _BLOCK))


def _first_end(data: bytes | mmap.mmap) -> int:
    """Return where the first record ends: with a line end outside quotes, or with the data.

    Line by line, a record of half a million lines took a second.
    """
    ends = (at + int(is_there.argmax()) for at, is_there in _outside_quotes(data, b"\n", _HEAD) if is_there.any())
    return next(ends, len(data) - 1) + 1


def _outside_quotes(data: bytes | mmap.mmap, letter: bytes, size: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Give where each block of so many bytes begins, and at which of them a letter stands outside quotes."""
    is_quoted = False
    for at in range(0, len(data), size):
        block = np.frombuffer(data, np.uint8, min(size, len(data) - at), at)
        quoted = np.logical_xor.accumulate(block == ord('"')) ^ is_quoted
        yield at, (block == letter[0]) & ~quoted
        is_quoted = bool(quoted[-1])


class JsonForm:
    """Records of a jsonlog: lines."""

    def end(self, data: bytes | mmap.mmap, size: int) -> int:
        """Return where the last whole line ends."""
        return data.rfind(b"\n", 0, size) + 1

    def records(self, data: bytes) -> Iterator[bytes]:
        """Give each line with its end, the last one as it is."""
        return iter(data.splitlines(keepends=True)) if b"\r" not in data else iter(io.BytesIO(data))

    def is_whole(self, record: bytes) -> bool:
        """Tell whether a record is an object of JSON."""
        if len(record) > _BLOCK:
            return _JSON_OBJECT.fullmatch(record) is not None
        try:
            return isinstance(json.loads(record), dict)
        except (ValueError, RecursionError):
            return False

    def columns(self, data: bytes | mmap.mmap) -> int:
        """Return 0: its fields have names."""
        return 0

    def database(self, record: bytes) -> str:
        """Return the database of a record, as it stands there in Latin-1."""
        if len(record) > _BLOCK:
            found = _JSON_DATABASE.search(record, 0, _HEAD)
            return str(json.loads(found[1].decode("latin-1"))) if found else ""
        try:
            return str(json.loads(record.decode("latin-1")).get("dbname", ""))
        except (ValueError, AttributeError, RecursionError):
            return ""
