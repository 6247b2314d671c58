"""A staircase of four steps on a simulated laboratory, for the tests of its climb."""

from dataclasses import replace

from pgdyno.model.shapes import plain
from pgdyno.studies.staircase.by_hand import GatedRuns, gate_of
from pgdyno.studies.staircase.options import StaircaseOptions
from pgdyno.studies.staircase.result import staircase_result
from pgdyno.studies.staircase.run import Staircase
from simulated_laboratory import SimulatedLaboratory

PLAN = """version = 2
[plan]
[[step]]
name = "good"
rules = ["good"]
settings = { work_mem = "64MB" }
[[step]]
name = "harmful"
settings = { random_page_cost = "10" }
[[step]]
name = "neutral"
settings = { temp_buffers = "16MB" }
[[step]]
name = "better"
after = ["good"]
settings = { jit = "off" }
[[step]]
name = "after-harm"
after = ["harmful"]
settings = { seq_page_cost = "2" }
"""
GAINS = {"work_mem": {"64MB": 1.4}, "random_page_cost": {"10": 0.7}, "jit": {"off": 1.2}}


def surface(settings):
    """Gains multiply: no factor knows of another."""
    gain = 1.0
    for knob, value in settings.items():
        gain *= GAINS.get(knob, {}).get(value, 1.0)
    return gain


def options(plan=PLAN, **changes):
    values = {"confidence": 0.95, "max_pairs": 12, "seed": 5}
    return StaircaseOptions(plan=plan, source="plan.toml", **{**values, **changes})


def climb(wanted, *, confirmed=(), ask=lambda _: None, verify=None, resumed=False, **lab):
    kernel = lab.pop("kernel", {})
    laboratory = SimulatedLaboratory(lab.pop("surface", surface), **{"cv": 0.01, **lab})
    laboratory.facts = replace(laboratory.facts, kernel=kernel)
    said = []
    gate = gate_of(wanted.read_plan(), laboratory.study, confirmed, ask=ask, verify=verify, announce=said.append,
                   resumed=resumed)  # fmt: skip
    found = Staircase(GatedRuns(laboratory, gate), laboratory.facts, wanted, said.append).climb()
    result = staircase_result(laboratory, found, wanted)
    return found, {**plain(result), "exit_code": result.exit_code}, laboratory, said


def thin_laboratory(thin):
    """Return a laboratory class whose trials of these numbers have 11 transactions, all others 5,000."""

    class Thin(SimulatedLaboratory):
        def run(self, spec, **more):
            trial = super().run(spec, **more)
            count = 11 if thin(trial) else 5000
            counted = replace(trial.outcome, counters={**trial.outcome.counters, "window_transactions": count})
            self.store.kept[-1] = replace(trial, outcome=counted)
            return self.store.kept[-1]

    return Thin
