"""A winner was measured with the load's sessions; the server may admit more, and `apply` counts those."""

from __future__ import annotations

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
