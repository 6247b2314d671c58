"""A winner was measured with the load's sessions; the server may admit more, and `apply` counts those."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts_from_params import make_facts
from pgdyno.model.configuration import Configuration
from pgdyno.studies.tune.result import with_all_sessions


@pytest.mark.parametrize(
    ("work_mem", "sessions", "said"), [("512MB", 2, True), ("512MB", 100, False), ("8MB", 2, False)]
)
def test_a_winner_that_apply_would_refuse_says_so(work_mem: str, sessions: int, said: bool) -> None:
    facts = make_facts(18)
    notes = with_all_sessions(Configuration.of({"work_mem": work_mem}), facts, sessions)
    assert bool(notes) is said
    if said:
        assert "measured with 2 sessions, and the server admits 100" in notes[0]
        assert "pgdyno apply refuses it without --force: can demand" in notes[0]


@pytest.mark.parametrize(("source", "said"), [("user", False), ("database", False), ("configuration file", True)])
def test_a_value_of_our_own_role_is_not_multiplied_by_all_sessions(source: str, said: bool) -> None:
    """ALTER ROLE made work_mem 1GB for one: `apply` takes what the server gives the others."""
    facts = make_facts(18)
    row = replace(facts.settings["work_mem"], setting=str(1 << 20), source=source)
    mine = replace(facts, settings={**facts.settings, "work_mem": row})
    assert bool(with_all_sessions(Configuration.of({"shared_buffers": "1GB"}), mine, 2)) is said
