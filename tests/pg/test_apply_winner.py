"""`pgdyno apply --study` on a real sandbox: the winner of a tune, on the server that it was proved on."""

from __future__ import annotations

import json

import pytest

from pgdyno.cli.main import command as pgdyno_command
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.fragment import parse_conf
from pgdyno.model.change import ChangeAction
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.environment_change import facts_image
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from result_example import made

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("apply-winner")]
SETTINGS = {"work_mem": "9MB", "shared_buffers": "96MB"}


def run(*words):
    return pgdyno_command.main(list(words), standalone_mode=False)


def in_sandbox(home, name, what):
    sandbox = Sandbox.open_or_create(name, root=home / "cache")
    try:
        sandbox.start()
        return what(sandbox)
    finally:
        sandbox.close(keep=True)


def files_of(home, name):
    folder = in_sandbox(home, name, lambda sandbox: sandbox.data_directory)
    kept = [path for path in folder.glob("*.conf") if path.name != "pgdyno-sandbox.conf"]  # written at every start
    return {path.name: path.read_bytes() for path in kept}


def shown(home, name):
    rows = in_sandbox(home, name, lambda one: one.target().postgres.fetch("SELECT name, setting FROM pg_settings"))
    return {row["name"]: row["setting"] for row in rows if row["name"] in SETTINGS}


def add_tune(home, sandbox, word="better", **fields):
    """Keep a tune of this sandbox that ended with this verdict; no verdict is measured here."""
    facts = in_sandbox(home, sandbox, lambda one: read_facts(one.target()))
    won = word == "better"
    result = {
        "keep": not won,
        "verdict": {"word": word, "ratio": 1.4, "ci": [1.2, 1.6], "metric": "throughput", "pairs": 6},
        "winner": {"settings": SETTINGS},
    }
    values = {
        "id": f"tune-{sandbox}", "kind": StudyKind.TUNE, "name": "a tune", "state": StudyState.COMPLETE,
        "created_at": 1_790_000_000.0, "target": f"sandbox {sandbox}", "environment": facts.environment_hash(),
        "facts": facts_image(facts), "workload": WorkloadSpec("select-only", {}, "0" * 12, "reads", True),
        "plan": LoadPlan(clients=1, jobs=1, warmup_s=1, measure_s=2), "result": made(StudyKind.TUNE, result),
        "options": {"target": TargetRequest(sandbox=sandbox).to_json()},
    }  # fmt: skip
    with Store.open(home / "data" / "pgdyno.db") as store:
        store.add_study(Study(**{**values, **fields}))


@pytest.fixture
def home(pgdyno_home):
    (pgdyno_home / "data").mkdir(exist_ok=True)
    return pgdyno_home


@pytest.mark.requirement("R-SAF-01", "R-SAF-02")
def test_the_winner_comes_into_force_on_its_own_server_and_rolls_back(home, capsys):
    add_tune(home, "w1")
    before, found = files_of(home, "w1"), shown(home, "w1")
    assert run("apply", "--study", "last", "--dry-run") == 0
    plan = capsys.readouterr().err
    assert "work_mem: 4MB -> 9MB, winner of tune-w1" in plan
    assert "one restart, for shared_buffers" in plan
    assert files_of(home, "w1") == before
    assert run("apply", "--study", "tune-w1", "--json") == 0  # no --sandbox: the study's own server
    done = json.loads(capsys.readouterr().out)
    assert done["restarted"] is True
    assert {change["study"] for change in done["changes"]} == {"tune-w1"}
    assert shown(home, "w1") == {"work_mem": "9216", "shared_buffers": str(96 * 128)}
    with Store.open(home / "data" / "pgdyno.db") as store:
        assert {(one.knob, one.rule, one.study) for one in store.changes()} == {(n, "", "tune-w1") for n in SETTINGS}
    assert run("apply", "--study", "last") == 0  # a second time
    again = capsys.readouterr()
    assert again.out == "all of it is in force already, and nothing was changed\n"
    assert "there    work_mem = 9MB is in force already" in again.err
    assert run("rollback", done["session"]) == 0
    told = capsys.readouterr()
    for text in (told.err, told.out):  # the plan, then what was done: it is pgdyno's own stop of its sandbox
        assert "the sandbox is stopped, as it is between commands, and is left so" in text
        assert "outside of this session" not in text
    assert files_of(home, "w1") == before
    assert shown(home, "w1") == found
    with Store.open(home / "data" / "pgdyno.db") as store:
        assert [one.action for one in store.changes()].count(ChangeAction.ROLLBACK) == 2


def test_another_server_is_refused_unless_told(home, capsys):
    add_tune(home, "w2")
    before = files_of(home, "w3")
    with pytest.raises(EnvironmentUnsuitable, match="was made on another server") as refused:
        run("apply", "--study", "tune-w2", "--sandbox", "w3")
    assert "system_identifier was" in refused.value.detail
    assert "data_directory was" in refused.value.detail
    assert files_of(home, "w3") == before
    assert run("apply", "--study", "tune-w2", "--sandbox", "w3", "--other-server", "--dry-run") == 0
    assert "work_mem: 4MB -> 9MB" in capsys.readouterr().err


def test_the_winner_is_written_as_files_and_nothing_is_changed(home, capsys, tmp_path):
    add_tune(home, "w4")
    before = files_of(home, "w4")
    assert run("apply", "--study", "last", "--emit", "conf", "--output", str(tmp_path / "out")) == 0
    assert parse_conf((tmp_path / "out" / "pgdyno-advice.conf").read_text()) == SETTINGS
    assert run("apply", "--study", "last", "--emit", "alter-system", "--emit", "conf", "--emit", "sysctl") == 0
    said = capsys.readouterr()
    assert "ALTER SYSTEM SET work_mem = '9MB';" in said.out
    assert "# --- pgdyno-advice.conf" in said.out
    assert "nothing of these changes is for sysctl" in said.err
    assert files_of(home, "w4") == before
