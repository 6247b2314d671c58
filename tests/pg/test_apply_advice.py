"""`pgdyno apply` and `experiment --rule` on a real sandbox: what stays, what is recorded, and the way back."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import time
from contextlib import contextmanager

import pytest

from advisor_case import make_host
from calm_load import DECIDED, SEGMENTS, calm
from fix_postgres import find_build, one_build
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.cli.main import command as pgdyno_command
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.model.change import ChangeAction
from pgdyno.model.finding import Answer, Change, ChangeKind, Depth, Finding, RuleGroup
from pgdyno.model.inventory import Inventory, ServerInventory
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.binaries import embedded_bin_dir
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice import advised
from pgdyno.studies.advice.proofs import proofs_of

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("apply-advice")]
HINT = "checkpoints are occurring too frequently"
LOAD = [*calm(DECIDED), "--guard", "throughput=off", "--guard", "oom=99", "--restarts", "none"]


def finding(rule, *changes, **fields):
    values = {"answer": Answer.FINDING, "group": RuleGroup.GENERAL, "depth": Depth.BASIC, "title": "It is so"}
    return Finding(rule=rule, changes=changes, **{**values, **fields})


def change(knob, value):
    return Change(ChangeKind.POSTGRESQL, knob, value)


@pytest.fixture
def advice(monkeypatch):
    """Let the advisor say what a test wants to be said."""
    findings: list[Finding] = []
    monkeypatch.setattr(advised, "advise_on", lambda *_, **__: (findings, None))
    monkeypatch.setattr(advised, "require", lambda *_: None)  # the rules of these findings are in no file
    return findings


def run(*words):
    return pgdyno_command.main(list(words), standalone_mode=False)


@contextmanager
def opened(home, name, bin_dir=None):
    """Open a sandbox as a verb does: nobody else can while it is open."""
    sandbox = Sandbox.open_or_create(name, root=home / "cache", bin_dir=bin_dir)
    try:
        sandbox.start()
        yield sandbox
    finally:
        sandbox.close(keep=True)


def files_of(home, name):
    with opened(home, name) as sandbox:
        folder = sandbox.data_directory
    kept = [path for path in folder.glob("*.conf") if path.name != "pgdyno-sandbox.conf"]  # written at every start
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in kept}


def shown(home, name, knob):
    with opened(home, name) as sandbox:
        rows = sandbox.target().postgres.fetch("SELECT name, setting FROM pg_settings")
    return next(row["setting"] for row in rows if row["name"] == knob)


def store_of(home):
    return Store.open(home / "data" / "pgdyno.db")


@pytest.mark.requirement("R-ADV-07", "R-SAF-01", "R-SAF-02")
def test_a_reload_change_stays_is_recorded_and_rolls_back(pgdyno_home, advice, capsys):
    before = files_of(pgdyno_home, "a1")
    advice.append(finding("sort-memory", change("work_mem", "9MB"), Change(ChangeKind.DDL, commands=("SELECT 1;",))))
    assert run("apply", "sort-memory", "--sandbox", "a1", "--dry-run") == 0
    assert files_of(pgdyno_home, "a1") == before
    assert "work_mem: 4MB -> 9MB" in capsys.readouterr().err
    assert run("apply", "sort-memory", "--sandbox", "a1", "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert done["restarted"] is False
    assert done["by_hand"] == ["SELECT 1;"]
    assert shown(pgdyno_home, "a1", "work_mem") == "9216"
    with store_of(pgdyno_home) as store:
        (record,) = store.changes()
    assert (record.rule, record.knob, record.old, record.new) == ("sort-memory", "work_mem", "4MB", "9MB")
    assert record.session == done["session"]
    assert "@" in record.who
    assert run("rollback") == 0  # a change that was accepted is nothing that was left over
    assert shown(pgdyno_home, "a1", "work_mem") == "9216"
    assert run("rollback", done["session"]) == 0
    assert files_of(pgdyno_home, "a1") == before
    assert shown(pgdyno_home, "a1", "work_mem") == "4096"
    with store_of(pgdyno_home) as store:
        assert [record.action for record in store.changes()] == [ChangeAction.APPLY, ChangeAction.ROLLBACK]


def test_a_restart_change_and_one_that_the_server_refuses(pgdyno_home, advice, capsys):
    before = files_of(pgdyno_home, "a2")
    advice.append(finding("buffers", change("shared_buffers", "96MB")))
    advice.append(finding("unsafe", change("fsync", "off")))
    with pytest.raises(PgdynoError, match="class X"):
        run("apply", "buffers", "unsafe", "--sandbox", "a2", "--force")
    assert files_of(pgdyno_home, "a2") == before
    assert run("apply", "buffers", "--sandbox", "a2", "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert done["restarted"] is True
    assert shown(pgdyno_home, "a2", "shared_buffers") == str(96 * 128)
    assert run("rollback", done["session"]) == 0
    assert files_of(pgdyno_home, "a2") == before
    with store_of(pgdyno_home) as store:
        assert {record.knob for record in store.changes()} == {"shared_buffers"}


@pytest.mark.night("pg/test_apply_advice.py::test_a_plan_is_run_step_by_step")
@pytest.mark.requirement("R-ADV-04")
def test_the_verdict_of_a_study_flows_back_to_its_rule(pgdyno_home, advice, capsys):
    worse = {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}
    advice.append(finding("no-indexes", *(change(name, value) for name, value in worse.items())))
    code = run("experiment", "--rule", "no-indexes", "--sandbox", "a3", *LOAD, "--pairs", "3", "8",
               "--confidence", "0.9", "--json")  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    assert code == 1, result["verdict"]
    with store_of(pgdyno_home) as store:
        study = store.study(result["study"])
        assert study.options["rule"] == {"ids": ["no-indexes"], "settings": worse, "plan": "", "step": ""}
        proof = proofs_of(store, inventory_of(study))["no-indexes"]
        assert (proof.study, proof.verdict) == (study.id, "worse")
        assert dict(proof.settings) == worse
        assert proofs_of(store, inventory_of(study, version_num=170000)) == {}


def inventory_of(study, version_num=None):
    """Make an inventory of the place where a study ran, as its facts have it."""
    from dataclasses import replace

    from pgdyno.model.facts import SettingFact

    facts, host = study.facts, make_host()
    cores, model = facts["host"]["cores"], facts["host"]["cpu_model"]
    processor = replace(
        host.processor, architecture=facts["host"]["architecture"], cpus=cores, usable=cores, model=model
    )
    memory = replace(host.memory, ram_bytes=facts["host"]["ram_bytes"], page_size=facts["host"]["page_size"])
    memory = replace(memory, thp_enabled=facts["kernel"]["transparent_hugepage.enabled"])
    memory = replace(memory, thp_defrag=facts["kernel"]["transparent_hugepage.defrag"])
    kernel = replace(host.kernel, release=facts["host"]["kernel"])
    place = facts["server"]["data_directory"]
    settings = {"data_directory": SettingFact("data_directory", place, None, "string", "postmaster", "override")}
    server = ServerInventory("18", version_num or facts["server"]["version_num"], settings=settings)
    return Inventory(replace(host, processor=processor, memory=memory, kernel=kernel), server)


@pytest.mark.slow
@pytest.mark.requirement("R-ADV-04", "R-ADV-19")
def test_a_plan_is_run_step_by_step(pgdyno_home, tmp_path, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text("""version = 1
[plan]
[[step]]
name = "bad"
rules = ["bad"]
origin = "list post"
cost = "reload"
check = "none"
settings = { enable_indexscan = "off", enable_bitmapscan = "off", enable_indexonlyscan = "off" }
[[step]]
name = "after-bad"
rules = ["after-bad"]
after = ["bad"]
origin = "document"
cost = "reload"
check = "none"
settings = { work_mem = "8MB" }
[[step]]
name = "by-hand"
rules = ["by-hand"]
origin = "document"
cost = "none"
check = "none"
commands = ["blockdev --setra 0 /dev/sda"]
""")
    words = [*LOAD, "--pairs", "3", "8", "--confidence", "0.9", "--json"]
    assert run("experiment", "--plan", str(plan), "--sandbox", "a4", *words) == 3
    result = json.loads(capsys.readouterr().out)
    assert [step["outcome"] for step in result["steps"]] == ["drop", "skipped", "skipped"]
    assert result["kept"] == {}
    with store_of(pgdyno_home) as store:
        study = store.study(result["study"])
        proof = proofs_of(store, inventory_of(study))["bad"]
    assert (proof.study, proof.verdict) == (study.id, "worse")
    assert result["plan"] == "plan.toml"


def has_the_advisor():
    composition = importlib.util.find_spec("pgdyno.studies.advice.advise")
    return composition is not None and any(rule.id == "max-wal-size" for rule in shipped_rules())


@pytest.mark.slow
@pytest.mark.requirement("R-PG-19", "R-ADV-07")
@pytest.mark.skipif(not has_the_advisor(), reason="the rule max-wal-size is not in this tree")
@pytest.mark.parametrize("build", one_build("npm-13"))
def test_the_hint_of_the_log_is_gone_after_its_finding_was_applied(pgdyno_home, capsys, build):
    with opened(pgdyno_home, "a5", find_build(build)) as sandbox:
        main = sandbox.data_directory / "postgresql.conf"
        others = re.sub(r"(?m)^(max_wal_size|checkpoint_timeout).*$", "", main.read_text())
        main.write_text(f"max_wal_size = 32MB\ncheckpoint_timeout = 30s\n{others}")  # seconds of WAL are a load then
        sandbox.target().postgres.fetch("SELECT pg_reload_conf()")
        log = next(path for path in sandbox.data_directory.parent.rglob("server.log"))
    before, asked_until = files_of(pgdyno_home, "a5"), time.monotonic() + 150
    while not is_applied("max-wal-size", "--sandbox", "a5", "--log", str(log), "--json"):
        assert time.monotonic() < asked_until, log.read_text()[-2000:]
        with opened(pgdyno_home, "a5") as sandbox:
            write_segments(sandbox)
    hints = log.read_text().count(HINT)
    assert hints > 0
    done = json.loads(capsys.readouterr().out)
    assert done["restarted"] is False
    assert [change["rule"] for change in done["changes"]] == ["max-wal-size"]
    with opened(pgdyno_home, "a5") as sandbox:
        write_segments(sandbox, seconds=3)  # for less time than what the value was made of, and enough for 32 MB
    assert log.read_text().count(HINT) == hints
    assert run("rollback", done["session"]) == 0
    assert files_of(pgdyno_home, "a5") == before
    assert shown(pgdyno_home, "a5", "max_wal_size") == "32"


def is_applied(*words):
    """Apply a rule; False while it cannot tell, as of a busy machine whose WAL comes in too short a time."""
    try:
        return run("apply", *words) == 0
    except UsageError as refused:
        if "it answers unknown" not in str(refused):
            raise
        return False


def write_segments(sandbox, seconds=6):
    used = sandbox.target().postgres.parameters
    where = ["-h", used["host"], "-p", used.get("port", "5432"), "-U", used["user"], "postgres"]
    subprocess.run(
        [embedded_bin_dir() / "pgbench", "-n", "-f", SEGMENTS, "-R", "6", "-T", str(seconds), *where],
        check=True,
        capture_output=True,
        timeout=120,
    )
