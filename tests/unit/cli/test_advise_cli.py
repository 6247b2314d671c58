"""The flags of `advise` and `rules`: what is refused, what goes where, and the exit codes. No server is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import pgdyno.cli.advise as advise_verb
import pgdyno.studies.advice.advise as studies_advise
from advice_example import make_advice, make_finding, whole
from advisor_case import make_host, make_server
from pgdyno.cli.advise import command
from pgdyno.cli.arguments import repeated
from pgdyno.cli.rules import command as rules_command
from pgdyno.errors import UsageError
from pgdyno.model.advice import Advice, Again
from pgdyno.model.facts import SettingFact
from pgdyno.model.finding import Finding, Severity
from pgdyno.model.inventory import Inventory
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.advise import StoreFor

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `advise` on an advice made by hand, in place of a captured folder."""

    place = SettingFact("data_directory", "/data", None, "string", "postmaster", "override")
    here = Inventory(make_host(), make_server(extra={"data_directory": place}))

    def call(*arguments: str, advice: Advice | None = None) -> Result:
        def offline(*_: object, store_for: StoreFor) -> Advice:
            store_for(here)
            return advice or whole()

        monkeypatch.setattr(studies_advise, "advise_offline", offline)
        return CliRunner().invoke(
            command, ["--root", str(tmp_path), *arguments], catch_exceptions=False, standalone_mode=False
        )

    return call


@pytest.mark.requirement("R-ADV-15")
def test_the_exit_code_tells_the_worst_severity(run: Run) -> None:
    mild = make_advice(make_finding("a"), make_finding("n", severity=Severity.NOTE))
    assert run().return_value == 1
    assert run(advice=mild).return_value == 0
    assert run("--fail-on", "advice", advice=mild).return_value == 1
    assert run("--fail-on", "critical").return_value == 1
    assert run("--fail-on", "never").return_value == 0
    assert run("--group", "response time").return_value == 0


@pytest.mark.requirement("R-ADV-15")
def test_json_is_one_object(run: Run) -> None:
    document = json.loads(run("--json").stdout)
    assert document["summary"]["critical"] == 1
    assert document["format"] == 1


@pytest.mark.requirement("R-INV-21", "R-ADV-17")
def test_depth_group_and_severity_choose(run: Run) -> None:
    def shown(*flags: str) -> set[str]:
        return {one["rule"] for one in json.loads(run("--json", *flags).stdout)["findings"]}

    assert shown("--severity", "critical") < shown("--severity", "warning") < shown()
    assert shown("--group", "general") == {"fsync"}


@pytest.mark.requirement("R-INV-21")
def test_the_depth_that_was_asked_for_is_shown() -> None:
    from advisor_case import make_case
    from pgdyno.model.classes import Criticality
    from pgdyno.model.finding import Depth
    from pgdyno.studies.advice.advise import AdviceRequest, advise_case

    case = make_case()

    def depth(**parts: object) -> Depth:
        return advise_case("db1", case.inventory, case.evidence, AdviceRequest(**parts)).depth

    assert depth() is Depth.BASIC
    assert depth(criticality=Criticality.BUSINESS_CRITICAL) is Depth.DEEP
    assert depth(criticality=Criticality.BUSINESS_CRITICAL, depth=Depth.LEAVE_ALONE) is Depth.LEAVE_ALONE


def test_files_are_written(run: Run, tmp_path: Path) -> None:
    page, text = tmp_path / "a.html", tmp_path / "a.md"
    assert run("--report", str(page), "--markdown", str(text)).return_value == 1
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert text.read_text("utf-8").startswith("# SQL first")
    with pytest.raises(UsageError, match="cannot be written"):
        run("--report", str(tmp_path / "none" / "a.html"))


@pytest.mark.requirement("R-ADV-06")
def test_emit_prints_files_or_writes_them(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pgdyno.export

    asked: list[str] = []

    def emitted(findings: Sequence[Finding], inventory: Inventory, form: str) -> dict[str, str]:
        asked.append(form)
        return {"a.conf": "x = 1\n", "undo-a.conf": "x = 0\n", "profile/tuned.conf": "[main]\n"}

    monkeypatch.setattr(pgdyno.export, "emit", emitted)
    assert "# --- a.conf\nx = 1\n# --- undo-a.conf\nx = 0" in run("--emit", "sysctl").stdout
    run("--emit", "sysctl", "--output", str(tmp_path / "out"))
    assert (tmp_path / "out" / "undo-a.conf").read_text() == "x = 0\n"
    assert (tmp_path / "out" / "profile" / "tuned.conf").read_text() == "[main]\n"
    assert asked == ["sysctl", "sysctl"]
    run("--emit", "sysctl", "--emit", "postgresql.conf", "--emit", "sysctl")
    assert asked[2:] == ["sysctl", "postgresql.conf"]
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        run("--emit", "sysctl", "--output", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(pgdyno.export, "emit", lambda *_: {})
    assert "nothing of these changes is for udev" in run("--emit", "udev").stderr


@pytest.mark.requirement("R-ADV-04")
def test_plan_writes_what_the_planner_says(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies_advise, "plan_of", lambda advice: f"# {len(advice.findings)}\n")
    run("--plan", str(tmp_path / "plan.toml"))
    assert (tmp_path / "plan.toml").read_text() == f"# {len(whole().findings)}\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pg-conf", "{file}"], "--pg-conf and --pg-version go together"),
        (["--pg-version", "16"], "--pg-version is for --pg-conf and --pg-settings"),
        (["--pg-conf", "{file}", "--pg-version", "16", "--pg-settings", "{file}"], "cannot be used together"),
        (["--target", "host=db1"], "--root and --target cannot be used together"),
        (["--host", "ssh://db1"], "--root and --host cannot be used together"),
        (["--output", "{folder}"], "--output is for --emit"),
        (["--window", "5"], "--window needs a live target"),
    ],
)
def test_flags_that_do_not_fit_are_told(run: Run, tmp_path: Path, flags: list[str], message: str) -> None:
    file = tmp_path / "f"
    file.touch()
    with pytest.raises(UsageError, match=message):
        run(*(flag.format(file=file, folder=tmp_path / "o") for flag in flags))


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not there"):
        CliRunner().invoke(command, ["--root", str(tmp_path / "none")], catch_exceptions=False, standalone_mode=False)


def test_explain_needs_no_target_for_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> Advice:
        raise AssertionError("a target was asked")

    monkeypatch.setattr(studies_advise, "advise_target", asked)
    words = ["--explain", "con-44"]
    result = CliRunner().invoke(command, [*words, "--json"], catch_exceptions=False, standalone_mode=False)
    assert json.loads(result.stdout)["lead"].startswith("decided by benchmark projects")
    result = CliRunner().invoke(command, words, catch_exceptions=False, standalone_mode=False)
    assert (result.return_value, "Batch processing improved by 46 %" in " ".join(result.stdout.split())) == (0, True)


def test_explain_a_rule_as_text_and_json(run: Run) -> None:
    assert "shared-buffers" in run("--explain", "shared-buffers").stdout
    assert json.loads(run("--explain", "shared-buffers", "--json").stdout)["title"] == "Mend shared-buffers"


def test_looking_makes_no_store(run: Run, tmp_path: Path) -> None:
    run()
    assert not (tmp_path / "data").exists()


def test_a_store_without_a_study_on_the_server_is_not_opened(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data" / "pgdyno"
    folder.mkdir(parents=True)
    with Store.open(folder / "pgdyno.db") as store:
        opened: list[str | None] = []
        monkeypatch.setattr(advise_verb, "open_store", lambda url: (opened.append(url), store)[1])
        run()
        assert not opened
        workload = WorkloadSpec("select-only", {}, "f", "reads", read_only=True)
        plan = LoadPlan(clients=1, jobs=1, warmup_s=1.0, measure_s=1.0)
        for name, directory, wanted in (("s1", "/other", []), ("s2", "/data", [None])):
            facts = {"server": {"data_directory": directory}}
            store.add_study(
                Study(name, StudyKind.BENCH, "n", StudyState.COMPLETE, 0.0, "x", "e", facts, workload, plan)
            )
            run()
            assert opened == wanted


def test_a_store_that_cannot_be_read_is_told_and_hides_no_advice(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "pgdyno"
    folder.mkdir(parents=True)
    (folder / "pgdyno.db").write_text("this is no database")
    result = run("--group", "response time")
    assert "cannot read what was proved here" in result.stderr
    assert "dirty-bytes" in result.stdout


def test_rules_are_listed_without_a_target(tmp_path: Path) -> None:
    result = CliRunner().invoke(rules_command, ["--json"], catch_exceptions=False)
    listed = json.loads(result.stdout)
    assert "pg-stat-statements" in {rule["id"] for rule in listed}
    assert all(rule["sources"] and rule["group"] for rule in listed)
    text = CliRunner().invoke(rules_command, [], catch_exceptions=False).stdout
    assert f"{len(listed)} rules" in text
    basic = json.loads(CliRunner().invoke(rules_command, ["--json", "--depth", "leave-alone"]).stdout)
    assert len(basic) <= len(listed)


@pytest.mark.requirement("R-ADV-05", "R-VER-06")
def test_a_configuration_without_a_server_is_judged(tmp_path: Path) -> None:
    conf = tmp_path / "postgresql.conf"
    conf.write_text("shared_buffers = 32MB\ncheckpoint_segments = 3\nmax_wal_size = 32MB\n")
    for version in ("9.5", "13", "18"):
        flags = ["--pg-conf", str(conf), "--pg-version", version, "--json", "--depth", "deep"]
        result = CliRunner().invoke(command, flags, catch_exceptions=False, standalone_mode=False)
        document = json.loads(result.stdout)
        assert document["summary"]["rules"] == len(document["findings"])
        assert document["summary"]["unknown"] > 0


def test_the_next_commands_are_about_the_same_case(run: Run, tmp_path: Path) -> None:
    """Without its flags, a command that is copied from the page would be about the sandbox."""
    done = run("--depth", "deep", "--fail-on", "never")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert f"pgdyno advise --root {tmp_path} --depth deep --plan plan.toml" in lines
    assert "pgdyno apply --target CONNINFO shared-buffers" in lines


@pytest.mark.parametrize(
    ("words", "root", "may"),
    [(["--target", "host=/x"], True, True), (["--target", "host=/x"], False, False), (["--root", "."], False, True),
     (["--target", "host=/x", "--sql-only"], True, False), (["--host", "db1"], False, True)],
)  # fmt: skip
def test_who_may_change_linux_settings_is_known_of_this_host_alone(
    words: list[str], root: bool, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Again] = []
    monkeypatch.setattr(advise_verb, "_advice", lambda *_: whole())
    monkeypatch.setattr(repeated.os, "geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(advise_verb, "_write", lambda *_: seen.append(repeated.of_the_same_case()))
    CliRunner().invoke(command, words, catch_exceptions=False, standalone_mode=False)
    assert seen[0].may_set_linux is may


@pytest.mark.requirement("R-SAF-10")
def test_the_next_commands_name_a_live_target_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advise_verb, "_advice", lambda *_: whole())
    words = ["--target", "host=db1 user=dba password=geheim", "--sql-only", "--window", "300", "--fail-on", "never"]
    done = CliRunner().invoke(command, words, catch_exceptions=False, standalone_mode=False)
    assert "geheim" not in done.stdout
    lines = [line.strip() for line in done.stdout.splitlines()]
    (line,) = [line for line in lines if line.startswith("pgdyno apply")]
    assert "host=db1" in line
    assert "--sql-only" in line
    assert any(line.startswith("pgdyno advise") and "--window 300" in line for line in lines)
