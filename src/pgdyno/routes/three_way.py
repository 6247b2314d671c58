"""What to write where others may have edited a file of ours meanwhile: their text stays, ours goes. Pure, on bytes.

Three sides: the image (the file before the session), what the session wrote, and what is found now. Found is the image,
or the image with ours: the image goes back, byte for byte. Anything else was edited: our lines are taken out wherever
they stand, whatever an editor did to their line ends, and every other byte stays where it is. A line of ours that
somebody rewrote is theirs by now and stays, and is named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_SPACE = b" \t\r\n"
_RENDERED = re.compile(rb"[A-Za-z_][A-Za-z0-9_.$]* = '.*'")
_NAME = re.compile(rb"\s*([A-Za-z_][A-Za-z0-9_.$]*)")


@dataclass(frozen=True, slots=True)
class Merge:
    """What a file must hold. `data` is None for a file that must be absent.

    `is_image`: it is what it was before the session, so owner, mode and time go back too. `rewritten` are lines of
    ours that somebody rewrote, which stay.
    """

    data: bytes | None
    is_image: bool
    rewritten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """What a session can have written into its drop-in, as lines without white space around them.

    `heads` open a block and `ends` close it; `remarks` are the other lines of comment in it. `settings` are the lines
    of every configuration that the session ever meant, `names` their parameters in lower case. Where that is not all
    known, because the journal was damaged, a line in the block that looks like ours is taken for one. `may_be_bare`:
    where somebody took all marks away, a line that is letter by letter ours is ours; after the first undo it is not.
    """

    heads: frozenset[bytes]
    ends: frozenset[bytes]
    remarks: frozenset[bytes]
    settings: frozenset[bytes]
    names: frozenset[str]
    is_known: bool = True
    may_be_bare: bool = True

    @property
    def lines(self) -> frozenset[bytes]:
        """Return every line that is ours."""
        return self.heads | self.ends | self.remarks | self.settings


def main_without(
    found: bytes | None, image: bytes, ours: Sequence[bytes], names_ours: Callable[[bytes], bool]
) -> Merge:
    """Return the main file without our lines `ours`.

    `found` is the file as it is now, None where it is gone, and `image` what it was before the session; `ours` have no
    white space around them. `names_ours` tells whether a line makes the server read our drop-in. The image has none
    that does, so one that somebody rewrote is made a comment: its text stays, and ours is not in force. A file that is
    gone comes back, and so does one that is empty: an editor or a full disk has cut it off, and a restart would take
    every setting away.
    """
    if found is None or found == image or is_cut_off(found, image, ours):
        return Merge(image, is_image=True)
    excess = _excess(found, image, frozenset(ours))
    kept, rewritten = [], []
    for line in reversed(_split(found)):
        if excess[_key(line)] > 0:
            excess[_key(line)] -= 1
        elif names_ours(line):
            kept.append(b"# " + line)
            rewritten.append(_text(line))
        else:
            kept.append(line)
    data = _without_separator(b"".join(reversed(kept)), image)
    return Merge(data, data == image and not rewritten, tuple(reversed(rewritten)))


def is_cut_off(found: bytes, image: bytes, ours: Sequence[bytes]) -> bool:
    """Tell whether nothing is left of a main file that held something, but for our lines `ours`."""
    return bool(image.strip(_SPACE)) and {_key(line) for line in _split(found)} <= {b"", *ours}


def dropin_without(found: bytes | None, image: bytes | None, base: bytes, block: Block) -> Merge:
    """Return the drop-in without our block.

    `found` is the file as it is now and `image` what it was before the session, each None for no file; `block` is
    what the session can have written. `base` is the part of the image that the session left in front of its block: all
    of it, or nothing where the image was in no main file and thus not in force.
    """
    if found is None or found == image:
        return Merge(image, is_image=True)
    rest, rewritten = without_block(found, base, block)
    if rest == base or (image is None and not rest.strip(_SPACE)):
        return Merge(image, is_image=True)
    if image and base != image and not rest.startswith(image):
        rest = image + (b"" if image.endswith(b"\n") else b"\n") + rest
    return Merge(rest, rest == image, rewritten)


def without_block(found: bytes, base: bytes, block: Block) -> tuple[bytes, tuple[str, ...]]:
    """Return what is found without our block, and the lines in it that somebody rewrote, which stay.

    Between its head and its end a line that is ours goes. Where somebody took the head away, a line that is ours goes
    unless the base has it too. The last line goes when it is torn: the beginning of one of ours, in our block.
    """
    lines = _split(found)
    keys = {_key(line) for line in lines}
    has_head = not keys.isdisjoint(block.heads)
    if keys.isdisjoint(block.heads | block.ends) and not block.may_be_bare:
        return found, ()
    excess = Counter[bytes]() if has_head else _excess(found, base, block.lines)
    kept, rewritten, inside = [], [], not has_head
    for line in lines:
        key = _key(line)
        if key in block.heads | block.ends:
            inside = key in block.heads or not has_head
            continue
        is_ours = _is_in_block(key, block) if has_head else excess[key] > 0
        if inside and (is_ours or _is_torn(line, block)):
            excess[key] -= 1
            continue
        if inside and has_head and sets(line) in block.names:
            rewritten.append(_text(line))
        kept.append(line)
    return _without_separator(b"".join(kept), base), tuple(rewritten)


def sets(line: bytes) -> str | None:
    """Return the parameter that a line of a configuration file sets, in lower case; None when it sets none."""
    match = _NAME.match(line)
    return None if match is None else match[1].decode().lower()


def settings_in(data: bytes) -> list[str]:
    """Return the parameters that the lines of a configuration file set, in lower case."""
    return [name for name in map(sets, _split(data)) if name is not None]


def _excess(found: bytes, image: bytes, ours: frozenset[bytes]) -> Counter[bytes]:
    """Count how often each line of ours is found beyond the times that the image has it."""
    keys = Counter(key for key in map(_key, _split(found)) if key in ours)
    keys.subtract(key for key in map(_key, _split(image)) if key in ours)
    return keys


def _is_in_block(key: bytes, block: Block) -> bool:
    return key in block.lines or (not block.is_known and _RENDERED.fullmatch(key) is not None)


def _is_torn(line: bytes, block: Block) -> bool:
    """Tell whether the last line is the beginning of one of ours, such as after a crash of the file system."""
    key = line.strip(_SPACE)
    return not line.endswith(b"\n") and len(key) > 2 and any(known.startswith(key) for known in block.lines)


def _without_separator(data: bytes, image: bytes) -> bytes:
    """Take away the newline that went between our lines and an image that does not end with one."""
    if not image or image.endswith(b"\n") or not data.endswith(b"\n"):
        return data
    last = _split(image)[-1]
    return data[:-1] if _split(data)[-1] == last + b"\n" else data


def _split(data: bytes) -> list[bytes]:
    return _LINES.findall(data)


def _key(line: bytes) -> bytes:
    return line.strip(_SPACE)


def _text(line: bytes) -> str:
    return line.strip(_SPACE).decode(errors="replace")
