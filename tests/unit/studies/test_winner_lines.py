"""The winner as lines to copy: what they would not bring about by themselves stands beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts_from_params import make_facts
from pgdyno.knobs.fragment import parse_conf
from pgdyno.model.configuration import Configuration
from pgdyno.studies.pairs.result import fragment_text, undo_text

pytestmark = pytest.mark.requirement("R-ADV-06")
WINNER = Configuration.of({"work_mem": "16MB", "random_page_cost": "1.1", "jit": "off"})
FACTS = replace(
    make_facts(
        fields={
            "work_mem": {"setting": "8192", "source": "configuration file"},
            "jit": {"setting": "on", "source": "configuration file"},
        }
    ),
    by_alter_system=frozenset({"work_mem", "checkpoint_timeout"}),
)


def test_lines_that_alter_system_outranks_say_so_and_only_they() -> None:
    """They were to be copied into postgresql.conf, where the server does not heed them."""
    text = fragment_text(WINNER, FACTS)
    assert parse_conf(text) == dict(WINNER)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert comments == [
        "# work_mem is set by ALTER SYSTEM, which outranks this file: ALTER SYSTEM RESET work_mem; takes that away"
    ]
    assert "#" not in fragment_text(WINNER, make_facts())


def test_the_undo_takes_away_the_line_of_what_no_file_had() -> None:
    assert set(undo_text(WINNER, FACTS).splitlines()) == {
        "# work_mem: remove the line; ALTER SYSTEM SET work_mem = '8MB'; sets it again",
        "# random_page_cost: remove the line; the default of 4 comes back",
        "jit = 'on'",
    }
