"""What the answer of a tune says of its settings: what putting them in force interrupts."""

from __future__ import annotations

import pytest

from pgdyno.model.results.tune import JointEffect, Unmeasured
from pgdyno.model.verdict import Interval, Word
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


def test_settings_that_were_measured_together_have_one_effect_and_say_so() -> None:
    retained = [
        Unmeasured(knob=name, before="1", after="2", why="", durability="A", context="sighup")
        for name in ("a", "b", "c")
    ]
    joint = JointEffect(knobs=("b", "c"), interval=Interval(1.08, 1.03, 1.13, 0.95), word=Word.BETTER)
    text = answer.need_text(3, retained, joint)
    assert "2 of them were measured together: which of these matter is not known." in text
    assert "1 of them was not measured alone: the notes say why." in text
    rows = {row[0]: row[3:5] for row in answer.effects_table(retained, joint).rows}
    assert rows["a"] == answer.UNMEASURED
    assert rows["b"] == rows["c"]
    assert rows["b"][0].endswith("with 1 other")
    assert "8" in rows["b"][0]
