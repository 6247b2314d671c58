"""Steps that people do: asked for, confirmed, verified, taken back, resumed, passed over."""

import pytest

import staircase_climbing
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.trial import BY_HAND as FACTOR
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Metric, Word
from pgdyno.studies.staircase.by_hand import GatedRuns, gate_of
from pgdyno.studies.staircase.run import Staircase
from simulated_laboratory import SimulatedLaboratory
from staircase_climbing import climb, options, surface, thin_laboratory

BY_HAND = """version = 2
[plan]
[[step]]
name = "smt"
[step.manual]
instructions = ["turn SMT off"]
undo = ["turn SMT on"]
verify = ["cat", "smt"]
expect = "off"
[[step]]
name = "good"
settings = { work_mem = "64MB" }
"""


@pytest.mark.requirement("R-EXP-18")
def test_a_step_by_hand_waits_is_confirmed_verified_and_taken_back():
    wanted = options(BY_HAND)
    with pytest.raises(EnvironmentUnsuitable, match="step smt waits until it is done") as waiting:
        climb(wanted)
    assert waiting.value.hint == "Then: pgdyno experiment --resume s1 --confirm smt"
    with pytest.raises(EnvironmentUnsuitable, match="step smt is not done: cat smt prints 'on'"):
        climb(wanted, confirmed=("smt",), verify=lambda argv: "on\n")
    state = iter(["off\n", "on\n"])
    found, result, laboratory, said = climb(wanted, ask=lambda question: True, verify=lambda argv: next(state))
    assert "    turn SMT off" in said
    assert "    turn SMT on" in said, "it gained nothing, so it is taken back before the next step"
    assert [t.spec.factors.get(FACTOR, "") for t in laboratory.store.kept if t.spec.factors.get("step") == "smt"] == (
        [""] * 6 + ["smt"] * 6 + [""] * 2
    )
    assert found.outcomes == {"smt": "null", "good": "keep"}
    assert result["steps"][0]["interleaved"] is False


@pytest.mark.requirement("R-EXP-18")
def test_a_step_by_hand_that_alternates_lets_a_steady_drift_cancel():
    """A machine that slows by 2 % a run: before and after alone would call the idle step harmful."""
    alternating = BY_HAND.replace('expect = "off"\n', 'expect = "off"\nalternate = true\n')
    state = {}

    def answer(question):
        state["now"] = "on" if "undone" in question else "off"
        return True

    words = {}
    for name, plan in (("plain", BY_HAND), ("alternating", alternating)):
        runs = iter(range(1000))
        found, result, laboratory, _ = climb(
            options(plan, only="smt", noise_runs=2),
            ask=answer,
            verify=lambda argv: state["now"],
            surface=lambda settings, runs=runs: 0.98 ** next(runs),
            cv=0.002,
        )
        words[name] = found.climbs[0].comparison.verdict.word
        order = [t.spec.factors.get(FACTOR, "") for t in laboratory.store.kept if t.spec.role is Role.ARM]
        assert order == {"plain": [""] * 6 + ["smt"] * 6 + [""] * 2,
                         "alternating": [""] * 3 + ["smt"] * 6 + [""] * 3}[name]  # fmt: skip
        assert result["steps"][0]["again"]["ratio"] < 0.9, "taken back, the server is not what it was"
        assert "without it again" in result["steps"][0]["why"]
    assert words["plain"] is Word.WORSE
    assert words["alternating"] is not Word.WORSE


@pytest.mark.requirement("R-EXP-18")
@pytest.mark.parametrize(("outcome", "gain"), [("kept, and stays as you did it", 1.5), ("", 1.0)])
def test_what_stays_done_by_hand_is_told_at_the_end(outcome, gain):
    done = [False]
    wanted = options(BY_HAND.replace('verify = ["cat", "smt"]\nexpect = "off"\n', ""), only="smt")
    laboratory = SimulatedLaboratory(lambda _: gain if done[0] else 1.0, cv=0.01)
    said = []

    def answer(question):
        done[0] = "undone" not in question
        return True

    gate = gate_of(wanted.read_plan(), laboratory.study, (), ask=answer, verify=None, announce=said.append)
    found = Staircase(GatedRuns(laboratory, gate), laboratory.facts, wanted, said.append).climb()
    at = len(said)
    gate.remind(climb.step.name for climb in found.kept)
    assert [*said[at:], ""][0] == (f"step smt: {outcome}; to take it back" if outcome else "")
    assert done[0] is bool(outcome), "what gained nothing was taken back"


@pytest.mark.requirement("R-EXP-18", "R-EXP-21")
def test_a_resumed_study_asks_again_for_what_people_had_done():
    wanted = options(BY_HAND.replace('verify = ["cat", "smt"]\nexpect = "off"\n', ""))
    first = SimulatedLaboratory(surface, cv=0.01, kill_after=13)
    gate = gate_of(wanted.read_plan(), first.study, ("smt",), ask=lambda _: None, verify=None, announce=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        Staircase(GatedRuns(first, gate), first.facts, wanted, lambda _: None).climb()
    with pytest.raises(EnvironmentUnsuitable, match="waits until it is done"):
        climb(wanted, recorded=list(first.store.kept), resumed=True)
    found, _, _, _ = climb(wanted, recorded=list(first.store.kept), resumed=True, confirmed=("smt", "smt=undone"))
    assert found.outcomes["good"] == "keep"


def test_steps_for_people_are_passed_over_when_nobody_asked_for_them():
    before, _, after = BY_HAND.partition("[step.manual]")
    plan = f'{before}commands = ["turn SMT off"]\n{after[after.index("[[step]]") :]}'
    assert climb(options(plan))[0].outcomes["smt"] == "skipped"
    assert climb(options(BY_HAND, skip_manual=True))[0].outcomes["smt"] == "skipped"
    with pytest.raises(EnvironmentUnsuitable):
        climb(options(plan, manual=True))


@pytest.mark.requirement("R-EXP-08")
def test_a_step_for_people_that_nobody_does_holds_no_other_back():
    """The size of WAL comes after its place: where nobody moves it, the size is tried all the same."""
    moved = '[[step]]\nname = "move"\ncommands = ["mv a b"]\n'
    sized = '[[step]]\nname = "size"\nafter = ["move"]\nsettings = { work_mem = "64MB" }\n'
    assert climb(options(f"version = 2\n[plan]\n{moved}{sized}"))[0].outcomes == {"move": "skipped", "size": "keep"}


def test_a_step_by_hand_that_cannot_be_judged_is_not_kept_and_the_others_stay(monkeypatch):
    monkeypatch.setattr(
        staircase_climbing,
        "SimulatedLaboratory",
        thin_laboratory(lambda trial: trial.spec.factors.get("step") == "smt"),
    )
    wanted = options(BY_HAND.replace('verify = ["cat", "smt"]\nexpect = "off"\n', ""), metric=Metric.LATENCY_P99)
    found, result, _, said = climb(wanted, ask=lambda question: True)
    assert found.outcomes == {"smt": "drop", "good": "keep"}
    assert "too few transactions" in result["steps"][0]["why"]
    assert "    turn SMT on" in said, "it is taken back before the next step"
