"""What `pgdyno experiment` refuses before anything is opened, and what --resume and --candidates accept."""

import pytest
from click.testing import CliRunner

from pgdyno.cli.main import command
from pgdyno.cli.requests.study_request import CONFIDENCE, PAIRS
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.stats.boundary import critical_values
from pgdyno.store.catalogue import Store
from result_example import made
from simulated_laboratory import simulated_study

PLAN = 'version = 2\n[plan]\n[[step]]\nname = "one"\nsettings = { work_mem = "8MB" }\n'


def refused(*words, verb="experiment"):
    done = CliRunner().invoke(command, [verb, *map(str, words)])
    assert isinstance(done.exception, PgdynoError), done.output
    return done.exception


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture
def store(tmp_path):
    """A store with a sandbox stage, a large stage and a tune in it."""
    from dataclasses import replace

    path = tmp_path / "store.db"
    with Store.open(path) as opened:
        for name, kind, stage in (("a-sandbox", "staircase", "sandbox"), ("b-large", "staircase", "large"),
                                  ("c-tune", "tune", "")):  # fmt: skip
            opened.add_study(replace(simulated_study(), id=name, kind=StudyKind(kind)))
            opened.update_study(
                name,
                state=StudyState.COMPLETE,
                result=made(StudyKind(kind), {"stage": stage, "candidates": ["one"]}),
            )
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of --ab, --rule, --plan, --from-advice, --sweep, --factorial, --resume"),
        (["--sweep", "work_mem=4MB,8MB", "--rule", "x"], "give one of"),
        (["--sweep", "work_mem=4MB,8MB", "--step", "x"], "--step is for --plan"),
        (["--sweep", "work_mem=4MB,8MB", "--stop-after", "2"], "--stop-after is for --plan"),
        (["--rule", "x", "--confirm", "smt"], "--confirm is for --plan and --resume"),
        (["--rule", "x", "--source", "2017"], "--source is for --from-advice"),
        (["--from-advice", "--source", "1999"], 'there is no document "1999"'),
    ],
)
def test_flags_that_mean_nothing_together(words, message):
    assert message in refused(*words).message


@pytest.mark.requirement("R-EXP-18")
def test_a_step_that_a_session_sets_is_not_confirmed(plan, store):
    error = refused("--plan", plan, "--confirm", "one", "--store", store)
    assert error.message == "step one is not for people"
    assert "has no step" in refused("--plan", plan, "--confirm", "two", "--store", store).message


@pytest.mark.requirement("R-EXP-05")
def test_candidates_come_from_a_finished_sandbox_stage_into_a_large_one(plan, store):
    words = ["--plan", plan, "--store", store, "--candidates"]
    assert "is not a finished sandbox stage" in refused(*words, "b-large", "--stage", "large").message
    assert refused(*words, "a-sandbox").message == "--candidates is for the stage large"


@pytest.mark.requirement("R-EXP-21")
def test_only_staircases_and_sweeps_are_resumed(store):
    assert "kind tune" in refused("--resume", "c-tune", "--store", store).message


@pytest.mark.requirement("R-EXP-21")
@pytest.mark.parametrize(
    ("verb", "name", "message"),
    [
        ("experiment", "c-tune", "study c-tune is of kind tune and not staircase or sweep"),
        ("tune", "a-sandbox", "study a-sandbox is of kind staircase and not tune"),
        ("matrix", "c-tune", "study c-tune is of kind tune and not matrix"),
        ("matrix", "last", "the store has no matrix study that could be resumed"),
    ],
)
def test_a_verb_resumes_the_kinds_that_it_begins(store, verb, name, message):
    assert message in refused("--resume", name, "--store", store, verb=verb).message


def test_a_plan_that_is_not_there(tmp_path, store):
    assert "cannot be read" in refused("--plan", tmp_path / "none.toml", "--store", store).message


@pytest.mark.parametrize(
    ("verb", "flag", "values"),
    [
        ("experiment", "--confidence", ["0.79"]),
        ("tune", "--confidence", ["0.79"]),
        ("experiment", "--pairs", ["4", "1001"]),
        ("tune", "--pairs", ["4", "1001"]),
    ],
)
def test_what_no_rule_for_verdicts_exists_for_is_refused_before_anything_is_measured(verb, flag, values):
    done = CliRunner().invoke(command, [verb, flag, *values])
    assert f"Invalid value for '{flag}'" in done.output


@pytest.mark.parametrize("confidence", [CONFIDENCE.min, CONFIDENCE.max])
def test_for_what_is_accepted_there_is_a_rule(confidence):
    assert len(critical_values(2, 4, confidence)) == 3
    with pytest.raises(UsageError, match="not possible"):
        critical_values(2, PAIRS.max + 1, confidence)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["experiment", "--ab", "A.conf", "--json"], "'--ab': it takes 2 words, and --json is a flag itself"),
        (["experiment", "--ab", "-w", "A.conf"], "'--ab': it takes 2 words, and -w is a flag itself"),
        (["advise", "--output", "--store=x"], "'--output': it takes one word, and --store=x is a flag itself"),
        (["experiment", "--ab", "./--json", "./-w"], 'file "--json" cannot be read'),
    ],
)
def test_a_flag_takes_no_other_flag_for_its_value(words, said):
    done = CliRunner().invoke(command, words)
    assert said in f"{done.output}{done.exception}"
