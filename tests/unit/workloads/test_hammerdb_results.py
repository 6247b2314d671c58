from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import EnvironmentUnsuitable, ExitCode, UsageError, WorkloadError
from pgdyno.model.trial import TrialState
from pgdyno.report.sections import FactList, Notice, Prose, TableBlock
from pgdyno.store.catalogue import Store
from pgdyno.studies.imported.hammerdb import ImportedFile, import_hammerdb, outcome
from pgdyno.studies.reports import build_report
from pgdyno.workloads.hammerdb.results import parse_files, parse_results
from pgdyno.workloads.hammerdb.run import HammerRun
from pgdyno.workloads.hammerdb.script import HammerTest, build_script, find_program, run_hammerdb, run_script

DATA = Path(__file__).parents[2] / "data" / "hammerdb"
TEST = HammerTest(host="db1", port="5433", superuser="postgres", warehouses=10, users=16, rampup_min=2, duration_min=5)


def read(name: str) -> str:
    return (DATA / name).read_text()


@pytest.mark.requirement("R-TPC-05")
def test_a_log_says_users_minutes_version_and_job() -> None:
    (run,) = parse_results(read("run.log"), source="run.log")
    assert (run.nopm, run.tpm, run.database, run.users) == (12345, 28765, "PostgreSQL", 4)
    assert (run.rampup_min, run.duration_min, run.version) == (2, 5, "4.10")
    assert run.job == "6612DCDE615803E293338333"
    assert run.failed_users == 0
    assert run.began_at is None, "the log names no moment"


def test_a_log_of_several_tests_gives_each_its_users() -> None:
    text = read("run.log") + read("run.log").replace("4 Active", "8 Active").replace("12345 NOPM", "20000 NOPM")
    assert [(run.users, run.nopm) for run in parse_results(text, source="log")] == [(4, 12345), (8, 20000)]


def test_users_that_failed_make_a_run_partial() -> None:
    text = read("run.log").replace("Vuser 3:FINISHED SUCCESS", "Vuser 3:FINISHED FAILED")
    (run,) = parse_results(text, source="log")
    assert outcome(run).state is TrialState.PARTIAL
    assert "1 virtual user failed" in (outcome(run).reason or "")


@pytest.mark.requirement("R-TPC-05")
def test_json_of_a_job_and_of_the_web_service() -> None:
    (job,) = parse_results(read("job_result.json"), source="job")
    assert (job.nopm, job.tpm, job.users, job.job) == (39526, 91194, 8, "6556CF0D60A403E213331363")
    assert job.began_at is not None
    (service,) = parse_results(read("service_job.json"), source="service")
    assert (service.nopm, service.users) == (18664, 16)
    assert service.procedures["NEWORD"].calls == 9412
    assert service.procedures["PAYMENT"].p95_ms == 9.5
    assert "neword_p99_ms" in outcome(service).counters


@pytest.mark.requirement("R-TPC-05")
def test_a_summary_of_version_6_has_fields_instead_of_a_sentence() -> None:
    (run,) = parse_results(read("summary.json"), source="summary")
    assert (run.nopm, run.tpm, run.database, run.users, run.warehouses) == (81350, 187420, "PostgreSQL", 12, 40)
    assert (run.rampup_min, run.duration_min, run.version) == (2, 5, "6.0")
    assert run.job == "69A80B40A1B203E213431323"
    assert run.machine == "PostgreSQL 18.4 on IBM/S390, 16 CPUs, 62.8 GB, Ubuntu 24.04.1 LTS, host db1"
    assert run.procedures["SLEV"].p99_ms == 44.5
    assert run.began_at is not None


def test_a_result_file_mixes_words_and_json() -> None:
    (run,) = parse_results(read("result.out"), source="result")
    assert (run.nopm, run.users, run.job) == (33210, 6, "681A2B3C4D5E03E263135333")
    assert (run.procedures["NEWORD"].calls, run.procedures["PAYMENT"].p95_ms) == (53500, 3.25)


def test_the_sentence_of_old_versions_has_its_figures_the_other_way_round() -> None:
    (run,) = parse_results(read("old.log"), source="old")
    assert (run.nopm, run.tpm, run.users) == (179640, 413250, 20)
    assert (run.rampup_min, run.duration_min) == (1, 3)
    assert run.began_at is not None


def test_each_failed_user_counts_once_and_for_the_test_it_failed_in() -> None:
    first, second = parse_results(read("failed.log"), source="failed")
    assert (first.users, first.failed_users, first.warehouses) == (3, 2, 200)
    assert (second.users, second.failed_users) == (1, 0)
    assert [first.job, second.job] == ["640A1B2C3D4E03E273135333", "640A1B2C3D4E03E283135333"]
    assert [first.duration_min, second.duration_min] == [10, 1]
    assert [outcome(run).state for run in (first, second)] == [TrialState.PARTIAL, TrialState.COMPLETE]


def profiled(*names: str) -> list[list[HammerRun]]:
    return parse_files([(name, read(name)) for name in names])


@pytest.mark.parametrize("order", [("run.log", "hdbxtprofile.log"), ("hdbxtprofile.log", "run.log")])
def test_a_time_profile_belongs_to_the_log_beside_it(order: tuple[str, str]) -> None:
    (run,) = [run for runs in profiled(*order) for run in runs]
    assert run.nopm == 12345
    assert set(run.procedures) == {"NEWORD", "OSTAT"}, "the summary, not a single user's block"
    new_order = run.procedures["NEWORD"]
    assert (new_order.calls, new_order.avg_ms, new_order.p50_ms, new_order.max_ms) == (3420, 36.25, 19.25, 1220.25)


def test_a_time_profile_in_the_log_itself_is_read() -> None:
    (run,) = parse_results(read("run.log") + read("hdbxtprofile.log"), source="log")
    assert run.procedures["OSTAT"].p99_ms == 112.5


@pytest.mark.parametrize("names", [("hdbxtprofile.log",), ("failed.log", "hdbxtprofile.log")])
def test_time_profiles_that_fit_no_result_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="time profile") as caught:
        profiled(*names)
    assert "log of the same tests" in (caught.value.hint or "")


def test_users_that_share_sessions_and_users_named_only_at_creation() -> None:
    text = read("run.log")
    shared = text.replace("4 Active Virtual Users configured", "4 VU * 25 AC = 100 Active Sessions configured")
    assert parse_results(shared, source="log")[0].users == 4
    without = text.replace("Vuser 1:4 Active Virtual Users configured\n", "")
    assert "Active" not in without
    assert parse_results(without, source="log")[0].users == 4, "5 were created, one of them the monitor"


def test_a_result_of_the_other_benchmark_says_so() -> None:
    with pytest.raises(UsageError, match="TPROC-C") as caught:
        parse_results("Vuser 1:Completed 1 query set(s) in 35 seconds\n", source="h.log")
    assert "TPROC-H" in (caught.value.detail or "")


@pytest.mark.parametrize("text", ["[" * 100_000, "[\n" * 300, '{"a":' * 100_000])
def test_nested_brackets_are_no_result_and_no_traceback(text: str) -> None:
    with pytest.raises(UsageError):
        parse_results(text, source="brackets")


@pytest.mark.parametrize("text", ["", "{}", "[1, 2", "Vuser 1:RUNNING", '{"a": "NOPM"}'])
def test_a_file_without_a_result_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"cut\.log"):
        parse_results(text, source="cut.log")


@given(st.text(), st.integers(0, 10**7), st.integers(0, 10**7), st.text())
def test_a_result_is_found_among_anything(before: str, nopm: int, tpm: int, after: str) -> None:
    line = f"Vuser 1:TEST RESULT : System achieved {nopm} NOPM from {tpm} PostgreSQL TPM"
    runs = parse_results(f"x{before}\n{line}\n{after}", source="any")
    assert (nopm, tpm) in [(run.nopm, run.tpm) for run in runs]


@pytest.mark.requirement("R-TPC-05")
def test_imported_runs_are_a_study_of_the_same_store(tmp_path: Path) -> None:
    files = [
        ImportedFile(name, read(name), parse_results(read(name), source=name))
        for name in ("run.log", "service_job.json")
    ]
    with Store.open(tmp_path / "s.db") as store:
        result = import_hammerdb(store, files)
        report = build_report(store, result.study)
        trials = store.trials(result.study)
    assert [trial.spec.factors for trial in trials] == [{"users": "4"}, {"users": "16"}]
    assert all(trial.outcome and trial.outcome.throughput is None for trial in trials), "TPM is no throughput"
    blocks = [block for section in report.sections for block in section.blocks]
    notices = " ".join(sentence for block in blocks if isinstance(block, Notice) for sentence in block.sentences)
    assert "not TPC-C results" in notices
    assert any("12,345" in row for block in blocks if isinstance(block, TableBlock) for row in block.table.rows)
    assert any(name == "run.log" for block in blocks if isinstance(block, FactList) for name, _ in block.rows)


def kept(tmp_path: Path, *names: str) -> tuple[str, str]:
    """Return the target and the sentences of a study of these files."""
    files = [ImportedFile(name, read(name), parse_results(read(name), source=name)) for name in names]
    with Store.open(tmp_path / "s.db") as store:
        result = import_hammerdb(store, files)
        report = build_report(store, result.study)
        target = store.study(result.study).target
    prose = [block for section in report.sections for block in section.blocks if isinstance(block, Prose)]
    return target, " ".join(sentence for block in prose for sentence in block.sentences)


def test_what_a_summary_says_of_the_machine_is_shown_and_only_then(tmp_path: Path) -> None:
    target, told = kept(tmp_path, "summary.json")
    assert target.startswith("PostgreSQL 18.4 on IBM/S390")
    assert "on 40 warehouses; PostgreSQL 18.4 on IBM/S390" in told
    assert "nothing of the server's settings" in told
    target, told = kept(tmp_path, "summary.json", "run.log")
    assert "several or unknown" in target
    assert "nothing of the machine" in told
    assert "unknown host" in kept(tmp_path, "run.log")[0]


def test_the_script_of_a_timed_test_holds_its_numbers_and_no_password() -> None:
    script = run_script(TEST)
    for line in ("diset tpcc pg_driver timed", "diset tpcc pg_rampup 2", "diset tpcc pg_duration 5", "vuset vu 16"):
        assert f"\n{line}\n" in script
    assert script.index("loadscript") < script.index("vucreate") < script.index("vurun") < script.index("vudestroy")
    assert "runtimer 720" in script
    assert script.count("$::env(PGDYNO_HAMMERDB_PASSWORD)") == 2
    built = build_script(TEST)
    assert "diset tpcc pg_count_ware 10\ndiset tpcc pg_num_vu 10\n" in built
    assert built.endswith("buildschema\nexit\n")


@pytest.mark.parametrize("host", ["db1; exec rm", "[exec id]", "$x", 'a"b', "a b", "a\nb", ""])
def test_words_that_tcl_would_run_are_refused(host: str) -> None:
    with pytest.raises(UsageError, match="host"):
        run_script(HammerTest(host=host, port="5432", superuser="postgres"))


def test_without_hammerdb_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentUnsuitable, match="not installed") as caught:
        find_program()
    assert caught.value.exit_code is ExitCode.UNSUITABLE
    assert "pgdyno import hammerdb" in (caught.value.hint or "")


def fake(folder: Path, body: str) -> Path:
    program = folder / "hammerdbcli"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def test_hammerdb_gets_its_script_by_argv_and_the_password_by_environment(tmp_path: Path) -> None:
    program = fake(tmp_path, f'echo "$1 $2 $PGDYNO_HAMMERDB_PASSWORD"; cat "$3"; cat {DATA / "run.log"}')
    text, cpu_s = run_hammerdb(program, run_script(TEST), tmp_path / "out", name="run", password="s3cret", timeout_s=20)
    assert text.startswith("tcl auto s3cret\n")
    assert "vuset vu 16" in text
    assert parse_results(text, source="run")[0].nopm == 12345
    assert cpu_s >= 0
    assert "s3cret" not in (tmp_path / "out" / "run.tcl").read_text()


def test_a_hammerdb_that_fails_or_hangs_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="code 3") as caught:
        run_hammerdb(fake(tmp_path, "echo broken; exit 3"), "", tmp_path, name="run", password="", timeout_s=20)
    assert "broken" in (caught.value.detail or "")
    with pytest.raises(WorkloadError, match="did not end"):
        run_hammerdb(fake(tmp_path, "exec sleep 60"), "", tmp_path, name="run", password="", timeout_s=0.3)
