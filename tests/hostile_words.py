"""Values and files that nobody means well with, drawn by a seed: for the fuzzing of flags and of readers."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

CASES = int(os.environ.get("PGDYNO_TEST_CASES", "100"))
"""Cases of each fuzzing test; `make fuzz` sets 5,000."""
LONG = "9" * 4301
WORDS = (
    "",
    " ",
    "0",
    "-1",
    "1",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-1e400",
    "1e308",
    LONG,
    f"-{LONG}",
    "0x10",
    "1_000",
    "١٢",
    "²",
    str(1 << 31),
    str(1 << 63),
    str(1 << 64),
    "1.5",
    "1e999GB",
    "128MB",
    "-5s",
    "90s",
    "5min",
    "1h",
    "..",
    ".",
    "/",
    "~",
    "../../etc/passwd",
    "/dev/zero",
    "/dev/null",
    "/dev/full",
    "/dev/stdin",
    "/proc/self/mem",
    "missing",
    "folder",
    "fifo",
    "empty",
    "binary",
    "text",
    "link",
    "a\nb",
    "a\tb",
    "\x1b[2J",
    "\u202e",
    "\udcff",
    "é",
    "x" * 5000,
    "a=b",
    "=",
    "a=",
    "=b",
    "a=b=c",
    "%s",
    "{}",
    "'",
    '"',
    "';--",
    "$(id)",
    "`id`",
    "last",
    "--",
    "-",
    "--help",
    "--json",
    "host=/nonexistent",
    "[/x]",
    "[bold]",
    "*",
    "a,b",
    ",",
    "1,2",
    "work_mem=-1e400",
    "work_mem",
    "vm.swappiness=1",
    "16",
    "99",
    "mine.conf",
    "plan.toml",
    "rows.csv",
    "topology.toml",
    "bundle.pgdyno",
    "http://127.0.0.1:1",
    "sqlite:////nonexistent/x.db",
)
LINES = (
    b"",
    b"\n" * 50,
    b"[" * 5000,
    b"{" * 5000,
    b'"',
    b"'",
    b"\\",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    LONG.encode(),
    b"-" + LONG.encode(),
    b"1e400",
    b"-1e400",
    b"nan",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"0",
    b"-1",
    b"1e308",
    b"\x1b[2J",
    "\u202e".encode(),
    "²".encode(),
    b"\\ud800",
    b"\\u0000",
    b"a" * 200_000,
    b" " * 50_000,
    b"," * 5000,
    b"=" * 100,
    b"a." * 5000,
    b"\r",
    b"\r\n",
    b"18446744073709551616",
    b"9999-99-99",
    b"99:99:99",
    b"[[x]]",
    b"[x]",
    b"#",
    b"x = 1",
    b"1_0",
)


def seed_of(config: pytest.Config) -> int:
    """Return the seed of a run: its own (`PGDYNO_TEST_SEED`), else that of the order of tests."""
    given = os.environ.get("PGDYNO_TEST_SEED") or config.getoption("randomly_seed", None) or 1
    return int(given) if str(given).isdecimal() else 1


def note(finding: str) -> str:
    """Write a finding as it comes where a long run was told to, and return it."""
    if "PGDYNO_TEST_FOUND" in os.environ:
        with Path(os.environ["PGDYNO_TEST_FOUND"]).open("a", errors="replace") as file:
            file.write(f"{finding}\n")
    return finding


def mutated(example: bytes, draw: random.Random) -> bytes:
    """Return an example with one to six places changed, cut, doubled or filled; sometimes bytes of no sense."""
    if draw.random() < 0.05:
        return draw.randbytes(draw.randrange(2000))
    data = bytearray(example)
    for _ in range(draw.randrange(1, 7)):
        at = draw.randrange(len(data) + 1)
        end = min(len(data), at + draw.randrange(1, 40))
        draw.choice(_CHANGES)(data, at, end, draw)
    return bytes(data)


def _fill(data: bytearray, at: int, end: int, draw: random.Random) -> None:
    data[at:end] = draw.choice(LINES)


def _insert(data: bytearray, at: int, end: int, draw: random.Random) -> None:
    data[at:at] = draw.choice(LINES)


def _flip(data: bytearray, at: int, end: int, draw: random.Random) -> None:
    data[at : at + 1] = bytes([draw.randrange(256)])


def _cut(data: bytearray, at: int, end: int, draw: random.Random) -> None:
    del data[at:]


def _drop(data: bytearray, at: int, end: int, draw: random.Random) -> None:
    del data[at:end]


def _double(data: bytearray, at: int, end: int, draw: random.Random) -> None:
    data[at:at] = data[at:end] * draw.randrange(1, 20)


def _value(data: bytearray, at: int, end: int, draw: random.Random) -> None:
    """Replace one number or word, where values stand, by another value."""
    spots = [place for place, byte in enumerate(data) if chr(byte) in "0123456789"]
    if spots:
        at = draw.choice(spots)
        end = at
        while end < len(data) and chr(data[end]) in "0123456789.":
            end += 1
        data[at:end] = draw.choice(LINES)


_CHANGES: Sequence[Callable[[bytearray, int, int, random.Random], None]] = (
    _fill,
    _insert,
    _flip,
    _cut,
    _drop,
    _double,
    _value,
    _value,
    _value,
)


def furnish(folder: Path) -> None:
    """Fill a folder with what paths of WORDS name."""
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "empty").touch()
    (folder / "binary").write_bytes(bytes(range(256)) * 16)
    (folder / "text").write_text("hello\n")
    (folder / "link").symlink_to("/dev/zero")
    (folder / "mine.conf").write_text("work_mem = 8MB\nvm.swappiness = 1\n")
    (folder / "rows.csv").write_text("clients,tps\n1,2\n")
