"""Names of foreign tables are found in texts however they are spelled: what is missed would reach another server."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.replay.foreign_tables import _named
from replayed_load import Load, Statement


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("übersicht", "SELECT * FROM übersicht WHERE a = 1"),
        ("kunde_ä", "INSERT INTO kunde_ä VALUES (1)"),
        ("Größe", 'SELECT 1 FROM public."Größe"'),
        ("my table", 'DELETE FROM "my table"'),
        ('a"b', 'TABLE "a""b"'),
        ("a.b+c", 'TABLE "a.b+c"'),
        ("item", "select(item.a)from item"),
        ("☃", 'TABLE "☃"'),
    ],
)
def test_a_name_is_found(tmp_path: Path, name: str, text: str) -> None:
    statements = [Statement(text, 0, 1, 0), Statement("SELECT * FROM xitemx, other_übersichten", 5, 1, 1)]
    trace = Load({0: statements}).write(tmp_path / "t.parquet")
    assert _named(trace, "d", {name: "s", "other": "s"}) == (name, 1)
    assert _named(trace, "d", {"bersicht": "s", "xitem": "s", "it": "s", "u": "s"}) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Größe", 'TABLE public.U&"Gr\\00f6\\+0000dfe"'),
        ("a!b", """TABLE u&"!0061!!b" UESCAPE '!'"""),
        ("🐘", 'TABLE U&"\\d83d\\dc18"'),
    ],
)
def test_a_name_in_unicode_escapes_is_found(tmp_path: Path, name: str, text: str) -> None:
    statements = [Statement(text, 0, 1, 0), Statement('TABLE U&"other\\!\\+ffffff"', 5, 1, 1)]
    trace = Load({0: statements}).write(tmp_path / "t.parquet")
    assert _named(trace, "d", {name: "s", "another": "s"}) == (name, 1)
    assert _named(trace, "d", {"another": "s"}) is None
