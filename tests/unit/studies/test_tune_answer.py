"""What the answer of a tune says of its settings: what putting them in force interrupts."""

from __future__ import annotations

import pytest

from pgdyno.model.results.tune import Unmeasured
from pgdyno.studies.tune import answer


@pytest.mark.parametrize(
    ("contexts", "told"),
    [
        (("sighup", "kernel"), "A reload is enough; nobody is disconnected."),
        (("user", "superuser-backend"), "A reload is enough; sessions that are open keep what they have."),
        (("kernel", "kernel"), "No restart and no reload:"),
        (("kernel", "postmaster"), "PostgreSQL has to be restarted once."),
    ],
)
def test_what_a_change_interrupts_follows_from_every_setting(contexts: tuple[str, ...], told: str) -> None:
    retained = [
        Unmeasured(knob=f"knob_{number}", before="1", after="2", why="", durability="A", context=one)
        for number, one in enumerate(contexts)
    ]
    assert f"2 settings to change. {told}" in answer.need_text(2, retained)
    assert "kernel" not in [row[5] for row in answer.effects_table(retained).rows], "a word for people"
