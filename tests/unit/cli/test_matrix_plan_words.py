"""What `pgdyno matrix` says before it changes a server that is not a sandbox."""

from types import SimpleNamespace

from facts_from_params import make_facts
from pgdyno.cli import matrix as verb
from pgdyno.cli.requests import study
from pgdyno.studies.matrix import run as course
from pgdyno.studies.matrix.plan import MatrixPlan, Room
from simulated_laboratory import simulated_study


def test_the_plan_names_every_setting_of_the_cells_that_are_measured(monkeypatch):
    said = []
    monkeypatch.setattr(course, "room_of", lambda *_: Room(smt_obstacle="one thread a core"))
    monkeypatch.setattr(study, "confirm_changes", lambda target, load, plan, outage, *, ask: said.append((plan, ask)))
    target, facts, load = SimpleNamespace(disposable=False), make_facts(18), simulated_study().workload
    several = {"default": {}, "b": {"work_mem": "8MB"}, "a": {"shared_buffers": "1GB", "work_mem": "9MB"}}
    for plan in (MatrixPlan(configurations=several, smt=("", "off")), MatrixPlan()):
        verb._checks(plan, ask=True)(target, facts, load, None)
    assert said == [
        ("3 cells in 3 repetitions, 3 skipped; sets shared_buffers, work_mem", True),
        ("1 cell in 3 repetitions, 0 skipped", False),
    ]
