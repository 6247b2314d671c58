"""What becomes of each file of a session when it is undone: known before anything is written, and shown as a plan."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.owner.file_image import FileImage, found_sum
from pgdyno.owner.hands import OURS, Hands
from pgdyno.routes.dropin import INCLUDE_LINES, DropIn, block_of
from pgdyno.routes.route_names import may_hold_secret
from pgdyno.routes.three_way import Block, Merge, dropin_without, is_cut_off, main_without, sets, settings_in
from pgdyno.routes.written import Written
from pgdyno.undo.bundle import UndoBundle

_VALUE = re.compile(r"^([-+]\s*[A-Za-z_][\w.$]*\s*=?\s*).*$")


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file: how it was, what is found now (None when absent), and what it must hold.

    `notes` tell what somebody else did to it since the session began, and what becomes of that.
    """

    image: FileImage
    found: bytes | None
    merge: Merge
    notes: tuple[str, ...] = ()
    hands: Hands = field(default=OURS, compare=False, repr=False)

    @property
    def path(self) -> Path:
        """Return the file."""
        return Path(self.image.path)

    def is_done(self) -> bool:
        """Return True when nothing is left to do."""
        return self.hands.is_in_place(self.image) if self.merge.is_image else self.found == self.merge.data

    def carry_out(self) -> bool:
        """Write what the file must hold; True when there was something to do.

        Raises OSError, of number ESTALE when somebody else has written the file since it was read. What a write that
        was killed has left beside the file goes in any case.
        """
        if self.merge.is_image:
            return self.hands.restore(self.image, self.merge.data or b"", found_sum(self.found))
        self.hands.sweep(self.path)
        if self.is_done():
            return False
        assert self.merge.data is not None, "only an image can be absent"
        self.hands.put(self.path, self.merge.data, found_sum(self.found))
        return True


def changes_of(bundle: UndoBundle, dropin: DropIn, written: Written) -> list[FileChange]:
    """Return what becomes of each file of the bundle, the drop-in first. Reads only.

    Our line in the main file stays where somebody's own settings are in force through it alone. Raises RollbackError
    when a copy in the bundle is damaged, OSError when a file cannot be read.
    """
    images = bundle.manifest.images
    is_named = all(image.path != bundle.manifest.main_file for image in images)
    block = block_of(bundle.id, written)
    changes, holds_others, hands = [], False, dropin.hands
    for image in images:
        content, path = bundle.content(image), Path(image.path)
        found = _read(hands, path)
        if image.path != str(dropin.path):
            change = _main(image, content, found, dropin, holds_others=holds_others)
            changes.append(replace(change, hands=hands))
            continue
        change = _dropin(image, content, found, block, is_named=is_named)
        holds_others = bool(change.notes) and not settings_in(content) and bool(settings_in(change.merge.data or b""))
        changes.append(replace(change, hands=hands))
    return changes


def _dropin(image: FileImage, content: bytes, found: bytes | None, block: Block, *, is_named: bool) -> FileChange:
    original = content if image.was_present else None
    merge = dropin_without(found, original, content if is_named else b"", block)
    if found is None and original is not None and is_named:
        return FileChange(image, found, merge, _gone(image))
    return FileChange(image, found, merge, () if merge.is_image else _edited(image, merge))


def _main(image: FileImage, content: bytes, found: bytes | None, dropin: DropIn, *, holds_others: bool) -> FileChange:
    merge = main_without(found, content, INCLUDE_LINES, dropin.names_ours)
    if found is None or is_cut_off(found, content, INCLUDE_LINES):
        return FileChange(image, found, merge, _gone(image, "removed" if found is None else "emptied"))
    if holds_others and dropin.names_ours(found):
        stays = f'our line in "{image.path}" stays, because settings of somebody else in "{dropin.path}" need it'
        return FileChange(image, found, Merge(found, is_image=False), (stays,))
    if image.attributes is not None:
        # We wrote it with the owner and mode that it had: others than the image's are somebody's own.
        now = dropin.hands.capture(Path(image.path))[0].attributes
        if now is not None:
            image = replace(image, attributes=replace(now, mtime_ns=image.attributes.mtime_ns))
    return FileChange(image, found, merge, () if merge.is_image else _edited(image, merge))


def _edited(image: FileImage, merge: Merge) -> tuple[str, ...]:
    lines = (f'"{image.path}": a line of ours that somebody else rewrote stays: {text}' for text in merge.rewritten)
    return (f'"{image.path}" was edited by somebody else since; that edit stays', *lines)


def _gone(image: FileImage, how: str = "removed") -> tuple[str, ...]:
    return (f'"{image.path}" was {how} by somebody else since, and goes back as it was found',)


def _read(hands: Hands, path: Path) -> bytes | None:
    image, data = hands.capture(path)
    return data if image.was_present else None


def _masked(line: str) -> str:
    name = sets(line[1:].encode()) if line[:1] in "+-" and not line.startswith(("---", "+++")) else None
    if name is None or not may_hold_secret(name):
        return line
    return _VALUE.sub(r"\1(not shown)", line)


def diff(path: Path, found: bytes | None, wanted: bytes | None) -> list[str]:
    """Return the lines of a file that will change, as a unified diff; values that may be secret are left out of it."""
    before, after = ((data or b"").decode(errors="replace").splitlines() for data in (found, wanted))
    to = str(path) if wanted is not None else "removed"
    return [_masked(line) for line in difflib.unified_diff(before, after, str(path), to, n=0, lineterm="")]


def plan_lines(changes: Sequence[FileChange]) -> list[str]:
    """Return the plan for people: every line that will change, and what stays of others."""
    lines: list[str] = []
    for change in changes:
        if change.is_done():
            lines.append(f"{change.path}: nothing to change")
        elif changed := diff(change.path, change.found, change.merge.data):
            lines += changed
        else:
            lines.append(f"{change.path}: time, owner or mode go back")
        lines += [f"note: {text}" for text in change.notes]
    return lines
