"""What the arms of a live study may set, and what a person is told of it."""

from __future__ import annotations

import pytest

from facts_from_params import make_facts
from pgdyno.errors import EnvironmentUnsuitable, PolicyError, UsageError
from pgdyno.knobs.policy import Durability
from pgdyno.model.configuration import Configuration
from pgdyno.studies.live.arms import arms_of, not_kept


def arms(b, a=None):
    return arms_of(a or {}, b, make_facts(18), connections=20)


def test_an_arm_has_canonical_values_beside_those_as_found():
    told = arms({"work_mem": "65536kB", "random_page_cost": "1.1"})
    assert dict(told.a) == {}
    assert dict(told.b) == {"random_page_cost": "1.1", "work_mem": "64MB"}
    assert told.before == {"random_page_cost": "4", "work_mem": "4MB"}
    assert told.worst is Durability.B
    assert told.notes == ()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"shared_buffers": "256MB"}, UsageError, "shared_buffers needs a restart"),
        ({"vm.swappiness": "1"}, UsageError, "is of Linux"),
        ({"fsync": "off"}, PolicyError, "class X"),
        ({"work_mem": "100GB"}, EnvironmentUnsuitable, "arm B cannot be measured here"),
    ],
)
def test_what_a_reload_does_not_bring_or_nobody_may_set_is_refused_with_a_hint(settings, error, message):
    with pytest.raises(error, match=message) as raised:
        arms(settings)
    assert raised.value.hint
    if message != "arm B cannot be measured here":
        with pytest.raises(error, match=message):
            arms({"work_mem": "8MB"}, settings)


def test_equal_arms_are_told():
    assert "ought to show no difference" in arms({"work_mem": "4MB"}).notes[0]


def test_what_does_for_the_sessions_that_are_there_and_not_for_all_is_told_before_it_is_measured():
    settings = Configuration.of({"work_mem": "64MB"})
    (note,) = not_kept(settings, make_facts(18, ram_bytes=8 << 30), connections=10)
    assert note.startswith("For all 100 sessions that the server admits it would be too much memory")
    assert "GB of memory" in note
    assert not_kept(settings, make_facts(18, ram_bytes=256 << 30), connections=10) == ()
    assert not_kept(settings, make_facts(18, ram_bytes=8 << 30), connections=100) == (), "it was refused at once"


def restarting(**settings):
    return arms_of({}, settings, make_facts(18), connections=20, may_restart=True)


def test_a_bundle_of_restarts_holds_one_setting_at_least_that_needs_them():
    assert restarting(shared_buffers="256MB", work_mem="8MB").names == ("shared_buffers", "work_mem")
    with pytest.raises(UsageError, match="nothing of work_mem needs a restart"):
        restarting(work_mem="8MB")


def test_what_a_server_may_not_start_with_is_no_experiment_on_live_users():
    with pytest.raises(UsageError, match="huge_pages is no experiment"):
        restarting(huge_pages="on", shared_buffers="256MB")
