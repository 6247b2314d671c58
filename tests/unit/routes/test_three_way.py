"""A person's lines are never lost, ours are always gone, and doing it again changes nothing: for all images."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.configuration import Configuration
from pgdyno.routes.dropin import INCLUDE_LINES, DropIn, block_of, render, with_include
from pgdyno.routes.three_way import Merge, dropin_without, is_cut_off, main_without, settings_in, without_block
from pgdyno.routes.written import Written

NAMES_OURS = DropIn(Path("/etc/postgresql/postgresql.conf")).names_ours
SESSION = "20260101T000000Z-x"
FIRST, SECOND = Configuration.of({"work_mem": "8MB"}), Configuration.of({"jit": "off", "work_mem": "9MB"})
BLOCK = block_of(SESSION, Written((FIRST, SECOND)))
UNDONE = block_of(SESSION, Written((FIRST, SECOND), is_undone=True))

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)
_LINES = st.one_of(
    _TEXT,
    st.sampled_from([
        "", "# a comment", "work_mem = 3MB", "include 'other.conf'", "work_mem = '8MB'", "\t", "x\r",
        "#include_if_exists 'pgdyno.conf'", "# pgdyno session of another",
    ]),
)  # fmt: skip


def is_theirs(line: str) -> bool:
    """Leave out what nobody could tell from ours."""
    return not NAMES_OURS(line.encode()) and line.strip().encode() not in {
        *INCLUDE_LINES,
        *BLOCK.lines - BLOCK.settings,
    }


THEIR_LINES = st.lists(_LINES.filter(is_theirs), max_size=6).map(lambda lines: [f"{line}\n".encode() for line in lines])
IMAGES = st.tuples(THEIR_LINES, st.booleans()).map(
    lambda drawn: b"".join(drawn[0]).removesuffix(b"\n") if drawn[1] else b"".join(drawn[0])
)


def lines_of(data: bytes) -> list[bytes]:
    return [line.strip() for line in data.split(b"\n") if line.strip()]


def main_after(found: bytes | None, image: bytes) -> Merge:
    return main_without(found, image, INCLUDE_LINES, NAMES_OURS)


@given(IMAGES)
def test_an_unedited_main_file_is_its_image_again(image: bytes) -> None:
    for found in (image, with_include(image), None):
        assert main_after(found, image) == Merge(image, is_image=True)


@given(IMAGES, THEIR_LINES, st.data())
def test_lines_that_somebody_adds_to_the_main_file_stay_and_ours_go(
    image: bytes, added: list[bytes], data: st.DataObject
) -> None:
    lines = with_include(image).splitlines(keepends=True) if b"\r" not in image else [with_include(image)]
    for line in added:
        at = data.draw(st.integers(0, len(lines)))
        lines.insert(at, line)
    found = b"".join(lines)
    merge = main_after(found, image)
    assert merge.data is not None
    expected = lines_of(found)
    for ours in INCLUDE_LINES:
        expected.remove(ours)
    assert lines_of(merge.data) == expected
    assert not NAMES_OURS(merge.data)
    assert main_after(merge.data, image).data == merge.data
    assert merge.is_image == (merge.data == image)


@given(IMAGES, st.data())
def test_lines_that_somebody_takes_out_of_the_main_file_stay_out(image: bytes, data: st.DataObject) -> None:
    lines = with_include(image).split(b"\n")
    gone = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    found = b"\n".join(line for index, line in enumerate(lines) if index not in gone)
    merge = main_after(found, image)
    assert merge.data is not None
    left = lines_of(found)
    if is_cut_off(found, image, INCLUDE_LINES):
        assert merge == Merge(image, is_image=True)
        return
    assert lines_of(merge.data) == [line for line in left if line not in INCLUDE_LINES]
    assert main_after(merge.data, image).data == merge.data


@given(IMAGES, THEIR_LINES)
def test_an_editor_that_writes_other_line_ends_does_not_hide_our_lines(image: bytes, added: list[bytes]) -> None:
    found = (with_include(image) + b"".join(added)).replace(b"\r", b"").replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    merge = main_after(found, image)
    assert merge.data is not None
    assert not NAMES_OURS(merge.data)
    assert lines_of(merge.data) == [line for line in lines_of(found) if line not in INCLUDE_LINES]


@pytest.mark.parametrize("left", [b"", b" \n\n", with_include(b"")])
def test_a_main_file_that_was_emptied_comes_back(left: bytes) -> None:
    """Every setting would be gone with the next start, the port among them."""
    assert main_after(left, b"port = 5433\n") == Merge(b"port = 5433\n", is_image=True)
    assert main_after(left, b"\n").data == left.replace(with_include(b""), b"")


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_come_through(image: bytes, found: bytes) -> None:
    for merge in (main_after(found, image), dropin_without(found, image, image, BLOCK)):
        assert merge.data is not None
        again = main_after(merge.data, image) if merge.data else merge
        assert again.data is not None
    assert main_after(main_after(found, image).data, image).data == main_after(found, image).data


@pytest.mark.parametrize(
    ("text", "after", "rewritten"),
    [
        ("work_mem = 1\n#include_if_exists 'pgdyno.conf'\n", "work_mem = 1\n#include_if_exists 'pgdyno.conf'\n", 0),
        (
            "include_if_exists = 'pgdyno.conf' # mine now\nwork_mem = 1\n",
            "# include_if_exists = 'pgdyno.conf' # mine now\nwork_mem = 1\n",
            1,
        ),
        ("include 'pgdyno.conf'\nwork_mem = 1\n", "# include 'pgdyno.conf'\nwork_mem = 1\n", 1),
    ],
)
def test_a_line_of_ours_that_somebody_rewrote_keeps_its_text(text: str, after: str, rewritten: int) -> None:
    merge = main_after(text.encode(), b"work_mem = 1\n")
    assert merge.data == after.encode()
    assert len(merge.rewritten) == rewritten
    assert not NAMES_OURS(merge.data)


def test_the_newline_between_is_ours_only_where_nothing_follows() -> None:
    assert main_after(b"# new\n" + with_include(b"port = 1"), b"port = 1").data == b"# new\nport = 1"
    assert main_after(with_include(b"port = 1") + b"# new\n", b"port = 1").data == b"port = 1\n# new\n"


@given(IMAGES, st.sampled_from([FIRST, SECOND, Configuration()]), st.booleans())
def test_an_unedited_drop_in_is_its_image_again(image: bytes, configuration: Configuration, kept: bool) -> None:
    found = render(configuration, session=SESSION, original=image, kept=kept)
    assert dropin_without(found, image, image, BLOCK) == Merge(image, is_image=True)
    assert dropin_without(image, image, image, BLOCK) == Merge(image, is_image=True)
    alone = render(configuration, session=SESSION, kept=kept)
    assert dropin_without(alone, None, b"", BLOCK) == Merge(None, is_image=True)
    assert dropin_without(alone, image, b"", BLOCK) == Merge(image, is_image=True)
    assert dropin_without(None, None, b"", BLOCK) == Merge(None, is_image=True)


@given(IMAGES, THEIR_LINES, THEIR_LINES, THEIR_LINES, st.sampled_from([FIRST, SECOND]))
def test_lines_that_somebody_adds_to_the_drop_in_stay_and_ours_go(
    image: bytes, above: list[bytes], within: list[bytes], below: list[bytes], configuration: Configuration
) -> None:
    """Also one that is letter by letter ours, unless it is in our block, where nobody could tell them apart."""
    block = render(configuration, session=SESSION).splitlines(keepends=True)
    within = [line for line in within if line.strip() not in BLOCK.settings]
    base = image + (b"" if not image or image.endswith(b"\n") else b"\n")
    theirs = [*above, base, *within, *below]
    found = b"".join([*above, base, block[0], *within, *block[1:], *below])
    merge = dropin_without(found, image, image, BLOCK)
    assert lines_of(merge.data or b"") == lines_of(b"".join(theirs))
    assert dropin_without(merge.data, image, image, UNDONE).data == merge.data


def test_lines_without_any_mark_are_ours_once() -> None:
    """Somebody's formatter took the comments out; after the first undo the same text is somebody's own."""
    found = b"jit = 'off'\nwork_mem = '9MB'\ntheirs = 1\n"
    assert dropin_without(found, None, b"", BLOCK).data == b"theirs = 1\n"
    assert dropin_without(found, None, b"", UNDONE).data == found


def test_a_value_that_somebody_rewrote_in_our_block_stays_and_is_named() -> None:
    found = render(SECOND, session=SESSION).replace(b"'9MB'", b"'99MB'")
    merge = dropin_without(found, None, b"", BLOCK)
    assert merge == Merge(b"work_mem = '99MB'\n", False, ("work_mem = '99MB'",))


def test_a_block_without_its_end_or_its_head_still_goes() -> None:
    """As earlier versions wrote it, or as somebody left it."""
    whole = render(SECOND, session=SESSION, original=b"a = 1\n")
    lines = whole.splitlines(keepends=True)
    for found in (b"".join(lines[:-1]), b"".join(line for line in lines if line.strip() not in BLOCK.heads)):
        assert dropin_without(found + b"b = 2\n", b"a = 1\n", b"a = 1\n", BLOCK).data == b"a = 1\nb = 2\n"


@given(IMAGES, st.integers(1, 40))
def test_a_torn_block_goes_too(image: bytes, cut: int) -> None:
    whole = render(SECOND, session=SESSION, original=image)
    assert dropin_without(whole[:-cut], image, image, BLOCK).data == image


def test_what_a_damaged_journal_does_not_know_goes_when_it_looks_like_ours() -> None:
    found = render(Configuration.of({"geqo": "off"}), session=SESSION) + b"theirs = 1\n"
    unknown = block_of(SESSION, Written((), is_known=False))
    assert without_block(found, b"", unknown) == (b"theirs = 1\n", ())
    assert b"geqo" in without_block(found, b"", block_of(SESSION, Written(())))[0]


def test_an_original_that_was_not_in_force_comes_back_in_front() -> None:
    found = render(FIRST, session=SESSION) + b"theirs = 1\n"
    merge = dropin_without(found, b"old = 1", b"", BLOCK)
    assert merge.data == b"old = 1\ntheirs = 1\n"
    assert dropin_without(merge.data, b"old = 1", b"", BLOCK).data == merge.data


def test_parameters_are_read_from_lines() -> None:
    assert settings_in(b"# a\nWork_Mem=1\n  jit off\n\n'x'\n") == ["work_mem", "jit"]
