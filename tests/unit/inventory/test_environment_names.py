"""One environment, one name: facts, inventories and the stores of earlier versions are named by one rule."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from captured import CAPTURES
from facts_from_params import make_facts
from pgdyno.capture.folder import load_folder
from pgdyno.capture.texts import ENVIRONMENT
from pgdyno.inventory.inspection import with_settings
from pgdyno.inventory.reading import read_inventory
from pgdyno.model.environment import Environment, same_environment
from pgdyno.model.facts import Unknown
from pgdyno.studies.session.environment_change import facts_image

DUMP = Path(__file__).parents[2] / "data" / "stores" / "before-typed-results.sql.gz"
FACTS = make_facts(18)
GOLDEN = ["e182bd743485", "68160641b0a1", "bf72d26904ff"]
"""What the version before one rule named them: known facts, data checksums hidden, facts of the host unknown."""


@pytest.mark.requirement("R-INV-18")
def test_studies_of_an_earlier_version_have_the_name_that_they_would_get_today() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(gzip.decompress(DUMP.read_bytes()).decode())
        rows = connection.execute("select environment, facts from study where environment <> 'unknown'").fetchall()
    assert len(rows) == 10
    assert [Environment.of_image(json.loads(facts)).name for _, facts in rows] == [name for name, _ in rows]


def test_the_name_of_some_facts_is_what_it_was() -> None:
    hidden = replace(FACTS.server, data_checksums=Unknown("not shown"))
    host = replace(FACTS.host, virtualization=Unknown("no sign"), swap_total_bytes=Unknown("not read"))
    found = [one.environment_hash() for one in (FACTS, replace(FACTS, server=hidden), replace(FACTS, host=host))]
    assert found == GOLDEN, "a stored study would not be found again"
    for one in (FACTS, replace(FACTS, server=hidden), replace(FACTS, host=host)):
        assert Environment.of_image(facts_image(one)) == one.environment()


def test_an_inventory_has_the_environment_that_was_found_with_its_texts() -> None:
    capture = load_folder(CAPTURES / "x86_64-128g")
    found = FACTS.environment()
    text = json.dumps(asdict(found))
    there = replace(capture, texts={**capture.texts, ENVIRONMENT: text})
    assert read_inventory(there).environment == found
    assert read_inventory(there).environment_name == FACTS.environment_hash()
    for text in (
        "{",
        "[]",
        "{}",
        '{"host": {}, "server": {}, "kernel": {}}',
        '{"host": 1, "server": [], "kernel": ""}',
    ):
        odd = replace(capture, texts={**capture.texts, ENVIRONMENT: text})
        assert isinstance(read_inventory(odd).environment_name, Unknown), text
    other = with_settings(there, version="15")
    assert "stand in for the server's own" in str(read_inventory(other).environment_name)
    assert "by an earlier version" in str(read_inventory(capture).environment_name)


def test_what_is_not_known_is_the_same_as_nothing() -> None:
    assert same_environment("c4559cf2519b", "c4559cf2519b")
    assert not same_environment("c4559cf2519b", "000000000000")
    assert not any(same_environment(name, name) for name in ("", "unknown", Unknown("not read")))
