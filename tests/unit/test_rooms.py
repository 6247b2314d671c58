"""Rooms of a size that one can know: few files a folder, and few a room with its subfolders."""

from __future__ import annotations

import re
from pathlib import Path

import pgdyno
from pgdyno.cli.main import MODULES, VERBS

FOLDER, ROOM = 35, 60
ROOT = Path(pgdyno.__file__).parent
LISTS = {
    *(ROOT / "cli" / f"{MODULES.get(verb, verb)}.py" for verb in VERBS),
    *(ROOT / "advisor" / "rules").glob("*.py"),
}
"""One file a verb and one a theme of rules: lists of equals, which nobody has to know as a whole."""


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.py")) - LISTS


def _rooms() -> list[Path]:
    """Return the rooms: the folders of the package, and those of studies, where each is a kind or a theme."""
    return [folder for parent in (ROOT, ROOT / "studies") for folder in parent.iterdir() if _files(folder)]


def test_every_verb_has_its_file() -> None:
    assert [path for path in LISTS if not path.is_file()] == []


def test_the_folder_of_verbs_holds_verbs_and_the_entry_point_alone() -> None:
    folder = ROOT / "cli"
    assert set(folder.glob("*.py")) - LISTS == {folder / "__init__.py", folder / "main.py"}


def test_no_folder_has_more_files_than_one_can_know() -> None:
    counts = {path.relative_to(ROOT): len(_files(path) & set(path.iterdir())) for path in ROOT.rglob("*/")}
    assert {folder: count for folder, count in counts.items() if count > FOLDER} == {}


def test_no_room_has_more_files_than_one_can_know() -> None:
    counts = {room.relative_to(ROOT): len(_files(room)) for room in _rooms() if room.name != "studies"}
    assert len(counts) > 30
    assert {room: count for room, count in counts.items() if count > ROOM} == {}


def test_the_pages_of_rooms_say_where_in_words() -> None:
    assert [page.parent.name for page in ROOT.glob("*/README.md") if "``" in page.read_text()] == []


def test_what_the_pages_of_rooms_name_is_there() -> None:
    project = ROOT.parents[1]
    names = {path.name for path in (*ROOT.rglob("*"), *(project / "bench").rglob("*"))}
    pages = [project / "ARCHITECTURE.md", *ROOT.glob("*/README.md")]
    named = {
        (page.parent.name, name)
        for page in pages
        for name in re.findall(r"`([\w/.]+\.(?:py|toml|sql))`", page.read_text())
    }
    assert len(named) > 150
    assert {(page, name) for page, name in named if not _is_there(project, page, name, names)} == set()


def _is_there(project: Path, page: str, name: str, names: set[str]) -> bool:
    """Tell whether a name is that of a file: as a path, or by its last part where the page says the folder before."""
    roots = (project, ROOT, ROOT / page)
    return any((root / name).exists() for root in roots) or ("/" not in name and name in names)
