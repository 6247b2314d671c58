"""What a study does about others: repeat once, wait and look a bounded time, then go on beside them."""

import pytest

from laboratory_parts import Parts, made
from pgdyno.model.configuration import BASELINE
from pgdyno.model.trial import BESIDE_OTHERS, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.studies.bench.run import bench
from pgdyno.studies.pairs.blocks import REPEATS, run_repeating
from pgdyno.trial import work
from pgdyno.trial.company import ENOUGH, MOST_WAITS, PATIENCE_S, Company, patience_s

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


def after(*outcomes, uses_beside=True):
    company = Company(lambda: None, uses_beside)
    for outcome in outcomes:
        company.note(outcome)
    return company


def test_one_disturbed_run_is_repeated_and_two_in_a_row_are_enough():
    assert not after(DISTURBED).uses_next
    assert not after(DISTURBED, QUIET, DISTURBED).uses_next
    company = after(DISTURBED, DISTURBED)
    assert company.uses_next
    assert company.wants_wait


def test_it_is_waited_for_once_while_they_stay():
    company = after(DISTURBED, DISTURBED, BESIDE, BESIDE)
    assert [after(DISTURBED).waits, company.waits] == [0, 1]
    assert company.uses_next
    assert not company.wants_wait


def test_a_machine_that_is_quiet_again_is_one_of_our_own_again():
    assert not after(DISTURBED, DISTURBED, QUIET).uses_next


def test_others_who_come_and_go_are_not_waited_for_for_ever():
    company = after(*[DISTURBED, DISTURBED, QUIET] * MOST_WAITS)
    assert company.uses_next, "their next run is used at once"
    company.note(DISTURBED)
    company.note(DISTURBED)
    assert not company.wants_wait


def test_a_run_that_measured_nothing_says_nothing_of_others():
    assert after(DISTURBED, Outcome(TrialState.REFUSED), Outcome(TrialState.VOID), DISTURBED).uses_next


@pytest.mark.parametrize("budget_s", [None, 60.0, 570.0, 36000.0])
def test_the_wait_is_bounded(budget_s):
    now = [0.0]

    def look():
        now[0] += 2.0
        return "foreign CPU is 98 % of a core (cc (process 7) 98 %)"

    said = Said()
    Company(look, uses_beside=True).wait(said, budget_s=budget_s, timer=lambda: now[0])
    assert now[0] <= patience_s(budget_s) + 2.0 <= PATIENCE_S + 2.0
    assert "cc (process 7) 98 %" in said.notices[0]


def test_the_wait_ends_when_they_have_left():
    looks = ["foreign CPU is 98 % of a core", None]
    said = Said()
    Company(lambda: looks.pop(0)).wait(said, budget_s=None, timer=lambda: 0.0)
    assert looks == []
    assert "the machine is quiet again" in said.notices[-1]


def disturb(monkeypatch):
    """Disturb every load that is not taken beside others."""

    def assess(*_, beside_others, **__):
        return BESIDE if beside_others else DISTURBED

    monkeypatch.setattr(work, "assess", assess)


def run_beside(monkeypatch, tmp_path, look, *, uses_beside=True):
    """Return four trials of a laboratory whose loads are disturbed."""
    disturb(monkeypatch)
    with made(monkeypatch, tmp_path, Parts(), look=look, uses_beside=uses_beside) as laboratory:
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


def test_one_that_uses_none_waits_too_and_then_repeats_no_run_until_the_machine_is_quiet(monkeypatch, tmp_path):
    looks = ["foreign CPU is 98 % of a core (cc (process 7) 98 %)", None]
    disturb(monkeypatch)
    parts, heard = Parts(), []
    parts.phase = parts.notice = heard.append
    with made(monkeypatch, tmp_path, parts, look=lambda: looks.pop(0)) as laboratory:
        trials = bench(laboratory, runs=3)
        states = [trial.state for trial in laboratory.store.trials(laboratory.study.id)]
    assert [trial.state for trial in trials] == [TrialState.DISTURBED] * 3
    assert states == [TrialState.DISTURBED] * (3 + 1 + 1), "not nine"
    assert looks == []
    assert [one for one in heard if " " in one] == [
        "waiting for the machine to become quiet",
        "two runs in a row were disturbed; waiting 10 s at most for others to end: foreign CPU is 98 % of a core "
        "(cc (process 7) 98 %)",
        "after two disturbed runs in a row the machine is quiet again",
    ]


def test_where_others_stay_it_says_that_such_runs_are_not_used():
    now, said = [0.0], Said()

    def look():
        now[0] += 2.0
        return "foreign CPU is 98 % of a core"

    Company(look).wait(said, budget_s=None, timer=lambda: now[0])
    assert said.notices[-1].endswith("of a core; runs beside them are not used, nor repeated")


def test_a_run_that_is_not_disturbed_is_repeated_also_where_others_stay():
    made_of = []

    def run(spec):
        made_of.append(spec)
        return Trial(len(made_of), "s1", spec, TrialState.UNSTEADY, Outcome(TrialState.UNSTEADY))

    spec = TrialSpec(BASELINE, Role.ARM, "bench", 1, 0)
    run_repeating(run, spec, company=after(*[DISTURBED] * 3))
    assert len(made_of) == 1 + REPEATS


def test_the_numbers_are_those_that_are_told():
    assert (ENOUGH, MOST_WAITS) == (2, 3)
    assert [patience_s(budget) for budget in (None, 60.0, 500.0, 36000.0)] == [10.0, pytest.approx(1.2), 10.0, 10.0]


def test_the_third_time_is_waited_for_and_the_fourth_is_not():
    company = after(*[DISTURBED, DISTURBED, QUIET] * 2, DISTURBED, DISTURBED)
    assert (company.waits, company.wants_wait, company.uses_next) == (3, True, True)
    for outcome in (QUIET, DISTURBED, DISTURBED):
        company.note(outcome)
    assert (company.waits, company.wants_wait) == (4, False)


def test_it_is_looked_again_until_the_time_is_up():
    now, looks = [0.0], []

    def look():
        looks.append(now[0])
        now[0] += 5.0
        return "others"

    Company(look).wait(Said(), budget_s=None, timer=lambda: now[0])
    assert looks == [0.0, 5.0], "at ten seconds no more"
