"""Read JSON, TOML, CSV and gzip that somebody else wrote. Pure; every failure is a ValueError whose words tell where.

What the standard library lets through and later code stumbles over is refused here: documents deeper than any of ours,
integers beyond 64 bits, numbers without an end, halves of surrogate pairs, NULs.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import tomllib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

MOST_LEVELS = 100
MOST_PARTS = 8_000_000
"""Values of one JSON document: each costs tens of bytes of memory for one or two of text."""
MOST_TOML = 4 << 20
"""Characters: the decoder is written in Python, and takes seconds for more."""
_LONG_NUMBER = re.compile(r"\d{20,}")
_LONG_KEY = re.compile(r"""(?<![\w\-"'])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){32}""")
"""A key of many parts takes time by the square of their number in `tomllib`."""
_BITS = 64


def load_json(text: str | bytes, *, finite: bool = True, strict: bool = True) -> Any:  # noqa: ANN401 - as json.loads and tomllib.loads; each reader checks the shape
    """Return what a JSON text stands for. Raises ValueError, and nothing else, on anything that it cannot be.

    `finite` False lets the words NaN and Infinity pass, which other programs and our own store may have written;
    `strict` False texts with NULs and halves of surrogate pairs.
    """
    told = text.decode() if isinstance(text, bytes) else text
    told = told.removeprefix("\ufeff")
    if sum(map(told.count, ",[{")) > MOST_PARTS:
        raise ValueError(f"it holds more than {MOST_PARTS:,} values")
    document = _decoded(json.loads, told)
    # A text of a document has a NUL or half of a surrogate pair by an escape alone, or as it is in what is not ASCII.
    check(document, finite=finite, strict=strict and ("\\u" in told or not told.isascii()))
    return document


def load_toml(text: str) -> dict[str, Any]:
    """Return the table of a TOML text. Raises ValueError, and nothing else, on anything that it cannot be."""
    if len(text) > MOST_TOML:
        raise ValueError(f"it is longer than {MOST_TOML:,} characters")
    long = _LONG_KEY.search(text)
    if long is not None:
        raise ValueError(f"line {_line(text, long.start())}: a key of more than 32 parts")
    document: dict[str, Any] = _decoded(tomllib.loads, text)
    check(document)
    return document


def load_csv(text: str) -> Iterator[list[str]]:
    """Yield the rows of a CSV text. Raises ValueError on what is none, and on a field longer than `csv` takes."""
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: {error}") from None
        if row is None:
            return
        yield row


def unpack(packed: bytes, *, at_most: int) -> bytes:
    """Return what gzip packed, several members included. Raises ValueError when it is damaged or longer than asked."""
    found, size = list[bytes](), 0
    while packed:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            block = unpacker.decompress(packed, at_most + 1 - size)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        found.append(block)
        size += len(block)
        if size > at_most:
            raise ValueError(f"it unpacks to more than {at_most:,} bytes")
        if not unpacker.eof:
            raise ValueError("its end is missing")
        packed = unpacker.unused_data.lstrip(b"\0")  # gzip(1) pads tapes with NULs
    return b"".join(found)


def check(document: object, *, finite: bool = True, strict: bool = True) -> None:
    """Refuse a document with what no document of ours has. Raises ValueError that tells what it is."""
    level = [document]
    for _ in range(MOST_LEVELS):
        below: list[object] = []
        for value in level:
            if isinstance(value, str):  # nearly all of them
                if strict:
                    _check_text(value)
            elif isinstance(value, dict):
                below.extend(value)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, int):
                if value.bit_length() > _BITS:
                    raise ValueError(f"an integer of more than {_BITS} bits")
            elif isinstance(value, float) and finite and not math.isfinite(value):
                raise ValueError(f"a number without an end ({value})")
        if not below:
            return
        level = below
    raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise ValueError(f"a NUL in the text {text[:40]!r}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"half of a surrogate pair in the text {text[:40]!r}") from None


def _decoded(decode: Callable[[str], Any], text: str) -> Any:  # noqa: ANN401 - as json.loads and tomllib.loads; each reader checks the shape
    try:
        return decode(text)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels") from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError):
        raise
    except ValueError as error:
        raise _of_number(error, text) from None


def _of_number(error: ValueError, text: str) -> ValueError:
    """Return the error for an integer that Python does not read: it says neither how long nor where."""
    longest = max(_LONG_NUMBER.finditer(text), key=lambda match: match.end() - match.start(), default=None)
    if "integer string conversion" not in str(error) or longest is None:
        return error if str(error) else ValueError("it cannot be read")
    digits = longest.end() - longest.start()
    return ValueError(f"line {_line(text, longest.start())}: an integer of {digits:,} digits")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
