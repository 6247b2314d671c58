"""What a study does about others: repeat once, wait and look a bounded time, then go on beside them."""

import pytest

from laboratory_parts import Parts, made
from pgdyno.model.configuration import BASELINE
from pgdyno.model.trial import BESIDE_OTHERS, Outcome, Role, TrialSpec, TrialState
from pgdyno.trial import work
from pgdyno.trial.company import ENOUGH, MOST_WAITS, PATIENCE_S, Company, patience_s, wait_and_look

pytestmark = pytest.mark.requirement("R-EXP-10")
DISTURBED, QUIET = Outcome(TrialState.DISTURBED), Outcome(TrialState.COMPLETE)
BESIDE = Outcome(TrialState.COMPLETE, counters={BESIDE_OTHERS: 1.0})


class Said:
    """Keeps what a watcher hears."""

    def __init__(self):
        self.notices = []

    def notice(self, text):
        self.notices.append(text)

    def __getattr__(self, name):
        return lambda *_: None


def after(*outcomes):
    company = Company()
    for outcome in outcomes:
        company.note(outcome)
    return company


def test_one_disturbed_run_is_repeated_and_two_in_a_row_are_enough():
    assert not after(DISTURBED).stays
    assert not after(DISTURBED, QUIET, DISTURBED).stays
    company = after(DISTURBED, DISTURBED)
    assert company.stays
    assert company.wants_wait


def test_it_is_waited_for_once_while_they_stay():
    company = after(DISTURBED, DISTURBED, BESIDE, BESIDE)
    assert [after(DISTURBED).waits, company.waits] == [0, 1]
    assert company.stays
    assert not company.wants_wait


def test_a_machine_that_is_quiet_again_is_one_of_our_own_again():
    assert not after(DISTURBED, DISTURBED, QUIET).stays


def test_others_who_come_and_go_are_not_waited_for_for_ever():
    company = after(*[DISTURBED, DISTURBED, QUIET] * MOST_WAITS)
    assert company.stays, "their next run is used at once"
    company.note(DISTURBED)
    company.note(DISTURBED)
    assert not company.wants_wait


def test_a_run_that_measured_nothing_says_nothing_of_others():
    assert after(DISTURBED, Outcome(TrialState.REFUSED), Outcome(TrialState.VOID), DISTURBED).stays


@pytest.mark.parametrize("budget_s", [None, 60.0, 570.0, 36000.0])
def test_the_wait_is_bounded(budget_s):
    now = [0.0]

    def look():
        now[0] += 2.0
        return "foreign CPU is 98 % of a core (cc (process 7) 98 %)"

    said = Said()
    wait_and_look(look, said, budget_s=budget_s, timer=lambda: now[0])
    assert now[0] <= patience_s(budget_s) + 2.0 <= PATIENCE_S + 2.0
    assert "cc (process 7) 98 %" in said.notices[0]


def test_the_wait_ends_when_they_have_left():
    looks = ["foreign CPU is 98 % of a core", None]
    said = Said()
    wait_and_look(lambda: looks.pop(0), said, budget_s=None, timer=lambda: 0.0)
    assert looks == []
    assert "the machine is quiet again" in said.notices[0]


def run_beside(monkeypatch, tmp_path, look):
    """Return four trials of a laboratory in which every load is disturbed unless it is taken beside others."""

    def assess(*_, beside_others, **__):
        return BESIDE if beside_others else DISTURBED

    monkeypatch.setattr(work, "assess", assess)
    with made(monkeypatch, tmp_path, Parts(), look=look) as laboratory:
        monkeypatch.setattr(Parts, "notice", lambda *_: None, raising=False)
        return [laboratory.run(TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, n)).state.value for n in range(4)]


def test_a_laboratory_uses_the_third_run_beside_others_and_all_that_follow(monkeypatch, tmp_path):
    looked = []

    def look():
        looked.append(1)
        return

    assert run_beside(monkeypatch, tmp_path, look) == ["disturbed", "disturbed", "complete", "complete"]
    assert len(looked) == 1


def test_a_laboratory_that_insists_uses_none(monkeypatch, tmp_path):
    assert run_beside(monkeypatch, tmp_path, None) == ["disturbed"] * 4


def test_the_numbers_are_those_that_are_told():
    assert (ENOUGH, MOST_WAITS) == (2, 3)
    assert [patience_s(budget) for budget in (None, 60.0, 500.0, 36000.0)] == [10.0, pytest.approx(1.2), 10.0, 10.0]


def test_the_third_time_is_waited_for_and_the_fourth_is_not():
    company = after(*[DISTURBED, DISTURBED, QUIET] * 2, DISTURBED, DISTURBED)
    assert (company.waits, company.wants_wait, company.stays) == (3, True, True)
    for outcome in (QUIET, DISTURBED, DISTURBED):
        company.note(outcome)
    assert (company.waits, company.wants_wait) == (4, False)


def test_it_is_looked_again_until_the_time_is_up():
    now, looks = [0.0], []

    def look():
        looks.append(now[0])
        now[0] += 5.0
        return "others"

    wait_and_look(look, Said(), budget_s=None, timer=lambda: now[0])
    assert looks == [0.0, 5.0], "at ten seconds no more"
