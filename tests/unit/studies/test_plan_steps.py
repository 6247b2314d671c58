"""Plans of version 2: one factor a step, levels, sweeps, what people do; and version 1 as it was."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from facts_from_params import make_facts
from json_schema import errors
from pgdyno.errors import PolicyError, UsageError
from pgdyno.studies.staircase.plan import FactorLevel
from pgdyno.studies.staircase.plan_check import check_plan
from pgdyno.studies.staircase.plan_file import parse_plan

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/reference/plan.schema.json").read_text())
HEAD = "version = 2\n[plan]\n"
ALL_LEVELS = (ROOT / "examples/plans/all-levels.toml").read_text()


def plan(*steps, head=HEAD):
    return parse_plan(head + "".join(f"[[step]]\n{step}\n" for step in steps))


@pytest.mark.requirement("R-EXP-01")
def test_two_factors_in_one_step_are_refused_unless_they_are_a_group():
    two = 'name = "two"\nsettings = { work_mem = "8MB", jit = "off" }'
    with pytest.raises(UsageError, match="2 factors in one step: work_mem, jit"):
        plan(two)
    assert plan(f'{two}\ngroup = "they act on one plan"').step("two").group == "they act on one plan"


@pytest.mark.requirement("R-EXP-01")
@pytest.mark.parametrize(
    "step",
    [
        'settings = { jit = "off" }\n[step.sweep]\nknob = "work_mem"\nvalues = ["4MB", "8MB"]',
        'settings = { jit = "off" }\n[step.manual]\ninstructions = ["turn SMT off"]',
    ],
)
def test_a_setting_beside_a_sweep_or_a_hand_is_two_factors(step):
    with pytest.raises(UsageError, match="are two factors"):
        plan(f'name = "x"\n{step}')


def test_in_version_1_the_single_rule_of_a_step_is_its_group():
    table = 'name = "a"\norigin = "document"\ncost = "none"\ncheck = ""\nsettings = { work_mem = "8MB", jit = "off" }\n'
    head = HEAD.replace("2", "1")
    assert plan(table + 'rules = ["a"]', head=head).step("a").group == "rule a"
    with pytest.raises(UsageError, match="2 factors in one step"):
        plan(table + 'rules = ["a", "b"]', head=head)
    with pytest.raises(UsageError, match='"rules" is missing'):
        plan(table, head=head)


@pytest.mark.requirement("R-EXP-01")
@pytest.mark.parametrize(
    ("first", "second", "words", "hint"),
    [
        (
            'after = ["b"]',
            'after = ["a"]',
            'line 5: step "a": after = "b" is not an earlier step but a later one',
            "Put b before a",
        ),
        ('after = ["a"]', "", 'line 5: step "a": after = "a" is the step itself', "Leave it out"),
        ("", 'after = ["aa"]', 'line 9: step "b": after = "aa" is not an earlier step: the plan has none', "mean a[?]"),
        ('seting = "x"', "", 'line 5: step "a": unknown key "seting"', "Did you mean settings[?]"),
        ("cost = 1", "", 'line 5: step "a": "cost" is a number and not text', ""),
    ],
)
def test_a_slip_is_told_with_file_line_step_key_and_value(first, second, words, hint):
    with pytest.raises(UsageError, match=f"^plan: {words}") as slip:
        plan(
            f'name = "a"\n{first}\nsettings = {{ work_mem = "8MB" }}',
            f'name = "b"\n{second}\nsettings = {{ jit = "off" }}',
        )
    assert re.search(hint, slip.value.hint or "")


@pytest.mark.requirement("R-EXP-01")
@pytest.mark.parametrize(
    ("step", "head", "message"),
    [
        ('settings = { work_mem = "4096kB" }', "", "stairs.toml: step x: work_mem = 4MB is in force already"),
        ('settings = { work_mem = "1kB" }', "", 'stairs.toml: step x: knob "work_mem": 1kB is outside'),
        (
            '[step.sweep]\nknob = "work_mem"\nvalues = ["8MB", "much"]',
            "",
            'stairs.toml: step x: knob "work_mem": "much"',
        ),
        ('settings = { work_mem = "8MB" }', 'baseline = { jit = "perhaps" }', "stairs.toml: [plan] baseline: knob"),
        ('settings = { work_mem = "8MB" }', 'baseline = { work_mem = "8MB" }', "step x: work_mem = 8MB is in force"),
    ],
)
def test_what_cannot_be_measured_on_a_server_is_told_with_file_step_key_and_value(step, head, message):
    """The default of work_mem is 4MB: a step that sets it would be measured against itself."""
    wanted = plan(f'name = "x"\n{step}', head=f"{HEAD}{head}\n")
    with pytest.raises(UsageError) as refused:
        check_plan(wanted, make_facts(18), source="stairs.toml")
    assert message in refused.value.message


@pytest.mark.requirement("R-EXP-01")
def test_a_step_may_set_back_what_an_earlier_one_set_but_not_in_isolation():
    steps = ('name = "a"\nsettings = { work_mem = "8MB" }', 'name = "b"\nsettings = { work_mem = "4MB" }')
    check_plan(plan(*steps), make_facts(18))
    alone = plan(*steps, head=f'{HEAD}mode = "isolate"\n')
    with pytest.raises(UsageError, match="step b: work_mem = 4MB is in force already"):
        check_plan(alone, make_facts(18))
    check_plan(alone, make_facts(18), steps=alone.steps[:1])


@pytest.mark.requirement("R-EXP-18")
def test_a_step_that_alternates_needs_its_undo():
    step = 'name = "a"\n[step.manual]\ninstructions = ["x"]\nalternate = true'
    with pytest.raises(UsageError, match='line 7: step "a": manual: alternate needs undo'):
        plan(step)
    assert plan(f'{step}\nundo = ["y"]').step("a").by_hand.alternate


@pytest.mark.requirement("R-EXP-25")
def test_one_plan_covers_factors_of_every_level():
    found = parse_plan(ALL_LEVELS)
    assert {step.level for step in found.steps} == set(FactorLevel)
    assert found.step("smt").by_hand.verify == ("cat", "/sys/devices/system/cpu/smt/control")
    assert found.step("shared-buffers").sweep.values == ("128MB", "512MB", "2GB", "4GB")


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ('settings = { work_mem = "8MB" }\nlevel = "kernel"', 'level "kernel" does not fit work_mem'),
        ('level = "kernel"\n[step.manual]\ninstructions = ["x"]', "needs settings or a sweep"),
        ('level = "attic"\nsettings = { work_mem = "8MB" }', 'level "attic" is not one of'),
        ('stage = "moon"\nsettings = { work_mem = "8MB" }', 'stage "moon" is not one of'),
        ('[step.sweep]\nknob = "work_mem"\nvalues = ["4MB"]', "fewer than two"),
        ('[step.sweep]\nknob = "work_mem"\nvalues = ["4MB", "4MB"]', "named twice"),
        ("[step.manual]\ninstructions = []", "instructions are empty"),
        ('[step.manual]\ninstructions = ["x"]\nexpect = "off"', "expect needs verify"),
        ("", "there is nothing to do"),
    ],
)
def test_a_slip_in_a_step_is_refused(step, words):
    with pytest.raises(UsageError, match=words):
        plan(f'name = "x"\n{step}')


@pytest.mark.parametrize(
    "where", ['[step.sweep]\nknob = "fsync"\nvalues = ["on", "off"]', 'settings = { fsync = "off" }']
)
def test_class_x_is_refused_in_sweeps_too(where):
    with pytest.raises(PolicyError, match="class X"):
        plan(f'name = "x"\n{where}')
    with pytest.raises(PolicyError, match="class X"):
        parse_plan(f'{HEAD}baseline = {{ fsync = "off" }}\n[[step]]\nname = "x"\nsettings = {{ jit = "off" }}')


def test_mode_and_stage_have_their_words():
    with pytest.raises(UsageError, match='mode "both" is not one of accumulate, isolate'):
        parse_plan(HEAD + 'mode = "both"\n[[step]]\nname = "x"\ncommands = ["y"]')
    assert (
        parse_plan(HEAD + 'mode = "isolate"\nstage = "large"\n[[step]]\nname = "x"\ncommands = ["y"]').stage == "large"
    )


@pytest.mark.parametrize("path", sorted((ROOT / "examples/plans").glob("*.toml")), ids=lambda path: path.name)
def test_the_examples_fit_the_schema(path):
    assert not list(errors(tomllib.loads(path.read_text()), SCHEMA))
