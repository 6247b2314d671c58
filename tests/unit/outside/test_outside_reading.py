"""Files, documents and words of others: what is read is what was written, and everything else is a ValueError."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.outside.documents import load_csv, load_json, load_toml, unpack
from pgdyno.outside.files import is_file, is_there, open_file, read_bytes, read_text
from pgdyno.outside.numbers import is_without_measure
from pgdyno.outside.words import PlainStream, one_line, printable
from pgdyno.units import parse_quantity

SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.floats(allow_nan=False) | st.text("aé\n中")
DOCUMENTS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner), max_leaves=20)


@given(DOCUMENTS)
def test_a_document_is_read_as_it_was_written(document: object) -> None:
    text = json.dumps(document)
    if "Infinity" not in text:
        assert load_json(text) == document
        assert load_json(text.encode()) == document


@given(st.text() | st.binary())
def test_any_text_is_a_document_or_a_value_error(text: str | bytes) -> None:
    for read in (load_json, load_toml):
        with suppress(ValueError):
            read(text if isinstance(text, str) else text.decode(errors="replace"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9" * 4301, "4,301 digits"),
        ("[1,\n" + "9" * 5000, "line 2: an integer of 5,000 digits"),
        ("9" * 21, "more than 64 bits"),
        ("[" * 101 + "]" * 101, "deeper than 100"),
        ("[" * 1_000_000, "deeper than 100"),
        ("NaN", "without an end"),
        ("1e400", "without an end"),
        ('"\\ud800"', "surrogate"),
        ('{"\\u0000": 1}', "NUL"),
        ("[" + "0," * 8_000_001 + "0]", "more than 8,000,000 values"),
    ],
    ids=range(10),
)
def test_what_no_document_of_ours_has(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        load_json(text)


@pytest.mark.timeout(20)
def test_a_key_of_very_many_parts_takes_no_time() -> None:
    for text in ("a." * 100_000 + "a = 1", f"x = {{ {'a.' * 100_000}a = 1 }}", '"a".' * 100_000 + "a = 1"):
        with pytest.raises(ValueError, match="more than 32 parts"):
            load_toml(text)
    assert load_toml("a.b.c = 'x.y." + "z." * 10 + "'") == {"a": {"b": {"c": "x.y." + "z." * 10}}}


@given(st.lists(st.lists(st.text("a,\"'\n"), min_size=2), min_size=1))
def test_rows_are_read_as_they_were_written(rows: list[list[str]]) -> None:
    text = "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\r\n" for row in rows)
    assert list(load_csv(text)) == rows


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_gzip_is_unpacked_with_all_of_its_members(parts: list[bytes]) -> None:
    assert unpack(b"".join(map(gzip.compress, parts)), at_most=2000) == b"".join(parts)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than 1,000 bytes"):
        unpack(bomb, at_most=1000)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    for cut in (bomb[:-9], bomb[:20], b"\x1f\x8b"):
        with pytest.raises(ValueError, match=r"."):
            unpack(cut, at_most=1 << 30)


@pytest.mark.timeout(20)
def test_only_regular_files_and_pipes_of_this_process_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert read_bytes(Path("/dev/null")) == b""
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "text").write_text("\ufeffhello")
    (tmp_path / "link").symlink_to(tmp_path / "text")
    for name in ("fifo", "zero", "."):
        with pytest.raises(OSError, match="not a regular file"):
            open_file(tmp_path / name)
    with pytest.raises(OSError, match="symbolic links"):
        open_file(tmp_path / "link", follow=False)
    assert read_text(tmp_path / "link") == "hello"
    with pytest.raises(OSError, match="no file can have this name"):
        open_file(tmp_path / "a\0b")
    read, write = os.pipe()
    os.write(write, b"piped")
    os.close(write)
    assert read_bytes(Path(f"/dev/fd/{read}")) == b"piped"
    os.close(read)


def test_the_bound_holds_for_files_that_do_not_tell_their_size(tmp_path: Path) -> None:
    assert len(read_bytes(Path("/proc/self/maps"))) > 100  # of size 0, by its status
    with pytest.raises(ValueError, match="larger than 100 bytes"):
        read_bytes(Path("/proc/self/maps"), at_most=100)
    (tmp_path / "a").write_bytes(b"x" * 101)
    with pytest.raises(UsageError, match="larger than 100 bytes"):
        read_text(tmp_path / "a", at_most=100)
    assert len(read_bytes(tmp_path / "a", at_most=101)) == 101


@given(st.text())
def test_a_printable_text_orders_nothing(text: str) -> None:
    shown = printable(text)
    assert not [letter for letter in shown if letter not in "\t\n" and (ord(letter) < 32 or 127 <= ord(letter) < 160)]
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ud800") & set(shown)
    assert printable(shown) == shown
    if text.isprintable() and "\u202e" not in text:
        assert shown == text


def test_a_stream_hides_its_bytes(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        stream = PlainStream(file)
        stream.writelines(["a\x1b[2Jb\n", "ü\n"])
        assert stream.buffer is None
        assert stream.fileno() == file.fileno()
    assert (tmp_path / "out").read_text() == "a\ufffd[2Jb\nü\n"


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e400GB", "9" * 41, " 1e999 ms "])
def test_a_number_without_measure_is_known(text: str) -> None:
    assert is_without_measure(text)


@pytest.mark.parametrize("text", ["1", "-1", "128MB", "0.5", "1e3", "on", "9" * 40, "a" + "9" * 99, "'x'", ""])
def test_a_text_that_is_no_such_number_is_left_alone(text: str) -> None:
    assert not is_without_measure(text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text", ["1" + " " * 200_000 + "!", "1" * 200_000 + "!", " " * 200_000 + "!", "1." * 100_000], ids=range(4)
)
def test_a_long_text_takes_no_time(text: str) -> None:
    assert not is_without_measure(text)
    with pytest.raises(UsageError, match="is not a number with a unit"):
        parse_quantity(text, "kB")


def test_a_name_with_a_line_break_adds_no_line() -> None:
    assert one_line("table x\nnothing differs\x1b[2K is missing") == "table x\ufffdnothing differs\ufffd[2K is missing"


def test_a_file_in_a_folder_closed_to_this_account_is_none_to_it(tmp_path, monkeypatch):
    (tmp_path / "one").touch()
    assert [is_file(tmp_path / name) for name in ("one", "none", ".")] == [True, False, False]

    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", closed)
    assert not is_file(tmp_path / "one")


def test_what_cannot_be_looked_at_is_named(tmp_path, monkeypatch):
    (tmp_path / "one").touch()
    assert [is_there(tmp_path / name) for name in ("one", "none", ".", "one/two")] == [True, False, True, False]
    with pytest.raises(UsageError, match=r'"/n{300}" cannot be looked at') as refused:
        is_there(Path("/" + "n" * 300))
    assert refused.value.detail == "File name too long"

    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", closed)
    with pytest.raises(UsageError, match='one" cannot be looked at'):
        is_there(tmp_path / "one")
