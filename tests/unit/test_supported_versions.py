"""The versions of PostgreSQL that are supported are said by one constant, and to users once."""

from __future__ import annotations

import re
from pathlib import Path

from pgdyno.model.facts import SUPPORTED_MAJORS

PROJECT = Path(__file__).parent.parent.parent
RANGE = f"{SUPPORTED_MAJORS[0]} to {SUPPORTED_MAJORS[-1]}"
MEASURED = re.compile(r"wal_direct_io\.(py|toml)|contradictions/storage\.toml|rules\.json")
"""What was measured on these versions, and says so: another version has to be measured, not only to be supported."""


def test_no_other_place_of_the_package_says_which_versions_are_supported() -> None:
    package = PROJECT / "src" / "pgdyno"
    texts = [path for end in ("py", "toml", "json") for path in package.rglob(f"*.{end}")]
    saying = [str(path.relative_to(package)) for path in texts if RANGE in path.read_text("utf-8")]
    assert [name for name in saying if not MEASURED.search(name)] == []


def test_the_front_page_names_them_as_they_are() -> None:
    assert f"PostgreSQL {RANGE}," in (PROJECT / "README.md").read_text("utf-8")
