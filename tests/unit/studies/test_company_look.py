"""Who uses the machine before and during a study: by name and share."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pgdyno.cli.demo import demo_options, demo_request
from pgdyno.model.facts import Unknown
from pgdyno.model.study import StudyKind
from pgdyno.probes.host.neighbours import Neighbour
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.session import company_look
from pgdyno.studies.session.company_look import FirstLook, looker, said_of, warning
from pgdyno.studies.session.exclusive import Activity
from pgdyno.trial.assess import Bounds

pytestmark = pytest.mark.requirement("R-EXP-10")
CC = Neighbour(7, "cc", 98.0)
TARGET = SimpleNamespace(local=True, directory=None, remote=None)


def test_what_disturbs_is_named_with_its_share():
    said = said_of(Activity(99.0, {}, 0), (CC,), Bounds())
    assert said == "foreign CPU is 99 % of a core (cc (process 7) 98 %)"
    assert said_of(Activity(3.0, {}, 0), (), Bounds()) is None
    assert said_of(Activity(Unknown("no /proc"), {}, 0), (CC,), Bounds()) is None


def test_people_hear_of_it_before_the_first_run_and_not_of_a_quiet_machine():
    assert "cc (process 7) 98 %" in str(warning((CC,), Bounds()))
    assert warning((Neighbour(8, "cron", 6.0),), Bounds()) is None
    alone = warning((CC,), Bounds(), beside_others=False)
    assert alone is not None
    assert alone.endswith("runs are disturbed above 15 %, repeated, and not used")


@pytest.mark.parametrize(
    ("beside_others", "prepared_s", "slept", "is_told"),
    [(True, 0.5, [1.5], True), (True, 9.0, [0.0], True), (False, 0.5, [], False), (False, 1.5, [], True)],
)
def test_runs_that_stand_alone_hear_of_it_too_and_wait_for_nothing(
    monkeypatch, tmp_path, beside_others, prepared_s, slept, is_told
):
    """A bench was told by three disturbed runs alone who had used the machine since before it began."""
    monkeypatch.setattr(company_look.neighbours, "look", lambda: SimpleNamespace(at_s=100.0))
    monkeypatch.setattr(company_look.neighbours, "busiest", lambda *_: (CC,))
    monkeypatch.setattr(company_look, "postmaster_pid", lambda _: 1)
    monkeypatch.setattr(company_look.time, "monotonic", lambda: 100.0 + prepared_s)
    said, waited = [], []
    first = FirstLook(SimpleNamespace(local=True, directory=tmp_path))
    first.tell(Bounds(), said.append, beside_others=beside_others, sleep=waited.append)
    assert (waited, bool(said)) == (slept, is_told)


def test_only_kinds_with_pairs_and_without_bounds_of_exclusive_use_go_on_beside_others():
    pairs = {StudyKind.TUNE, StudyKind.AB, StudyKind.STAIRCASE, StudyKind.SWEEP}
    assert {kind for kind in StudyKind if kind_of(kind).beside_others} == pairs
    assert looker(TARGET, Bounds()) is not None
    assert looker(TARGET, Bounds(foreign_disk_mb_per_s=5.0)) is None
    assert looker(TARGET, Bounds(foreign_sessions=0.0)) is None


def test_a_process_that_computes_is_found_while_the_study_prepares(tmp_path):
    """It is nobody's child: what this process starts counts as ours."""
    code = "import os,time\npid=os.fork()\nif pid: print(pid, flush=True); os._exit(0)\nos.setsid()\n"
    code += "end=time.monotonic()+20\nwhile time.monotonic()<end: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
    said = []
    try:
        first = FirstLook(SimpleNamespace(local=True, directory=tmp_path))
        first.tell(Bounds(foreign_cpu_pct=1.0), said.append, beside_others=True)
    finally:
        os.kill(pid, 9)
    assert any("others use this machine" in text for text in said)


def test_the_demo_has_the_bounds_of_any_other_study():
    request = demo_request("demo", demo_options(1), keep=True)
    assert request.bounds == Bounds()
