"""Pages that are made from the project's own data: written where they differ, or with --check named when stale."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def stale(wanted: Mapping[str, str], folder: Path) -> list[str]:
    """Return the names of the Markdown pages of a folder that are missing, different, or there without a cause."""
    present = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in {*wanted, *present} if wanted.get(name) != present.get(name))


def keep_folder(wanted: Mapping[str, str], folder: Path, arguments: Sequence[str]) -> int:
    """Make a folder's pages what they should be, or with `--check` say which are not; return the exit code."""
    different = stale(wanted, folder)
    if "--check" in arguments:
        return _complain([f"{folder.name}/{name}" for name in different])
    folder.mkdir(parents=True, exist_ok=True)
    for name in different:
        if name in wanted:
            (folder / name).write_text(wanted[name], "utf-8")
        else:
            (folder / name).unlink()
    print(f"{len(different)} of {len(wanted)} pages written")
    return 0


def keep_page(text: str, page: Path, arguments: Sequence[str]) -> int:
    """Make one file what it should be, or with `--check` say that it is not; return the exit code."""
    is_current = page.exists() and page.read_text("utf-8") == text
    if "--check" in arguments:
        return _complain([] if is_current else [page.name])
    if not is_current:
        page.write_text(text, "utf-8")
    return 0


def _complain(names: Sequence[str]) -> int:
    for name in names:
        print(f"{name} is stale: run make docs", file=sys.stderr)
    return 1 if names else 0
