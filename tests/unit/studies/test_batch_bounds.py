"""What bounds a run of a chain before it begins, and the plans that are kept of its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from batch_example import SMALL, chain_of, recorded
from facts_from_params import make_facts
from pgdyno.cli.batch import command
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.facts import Unknown
from pgdyno.model.record import PlanRecord
from pgdyno.model.results.batch import BatchExecution, BatchResult, JobEnd, JobRun
from pgdyno.report.drawing import markdown
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.batch import keeping
from pgdyno.studies.batch.compare_page import compare_page, comparison_json
from pgdyno.studies.batch.comparing import compare
from pgdyno.studies.batch.page import batch_page
from pgdyno.studies.batch.run import require_room, require_size
from pgdyno.workloads import disk_room
from study_example import make_study

SCAN = PlanRecord("load/copy: SELECT 1", "a", "Seq Scan on items")
INDEX = PlanRecord("load/copy: SELECT 1", "b", "Index Scan using items_id on items")


def test_more_jobs_at_a_time_than_allowed_are_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "chain.toml"
    path.write_text(SMALL)
    path.chmod(0o600)
    found = CliRunner().invoke(command, ["run", str(path), "--max-clients", "1"])
    assert isinstance(found.exception, UsageError)
    assert "the chain runs 2 jobs at a time, and --max-clients is 1" in str(found.exception)


def test_a_size_that_is_none_is_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "chain.toml"
    path.write_text(SMALL)
    path.chmod(0o600)
    found = CliRunner().invoke(command, ["run", str(path), "--max-size", "lots"])
    assert isinstance(found.exception, UsageError)
    assert '"lots" is not a number with a unit' in str(found.exception)


def test_a_larger_database_than_allowed_is_refused() -> None:
    target: Any = SimpleNamespace(postgres=SimpleNamespace(fetch=lambda *_: [{"bytes": 3 << 30}]))
    require_size(target, "app", 4 << 30)
    with pytest.raises(EnvironmentUnsuitable, match='database "app" has 3 GB, more than --max-size 2 GB'):
        require_size(target, "app", 2 << 30)


def test_room_is_told_on_both_sides_and_too_little_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = make_facts(18)
    assert "where the server's data lie: " in require_room(facts)
    hidden = replace(facts, host=replace(facts.host, data_disk_free_bytes=Unknown("it is another host")))
    assert "where the server's data lie: unknown (it is another host); here in " in require_room(hidden)
    monkeypatch.setattr(disk_room, "LEAST_HERE", 1 << 62)
    with pytest.raises(EnvironmentUnsuitable, match="where the jobs write what they say"):
        require_room(facts)


def test_plans_are_those_of_jobs_that_succeeded_and_of_no_statement_with_a_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[str]()

    def records(_server: object, _database: str, statements: Sequence[str]) -> list[PlanRecord]:
        asked.extend(statements)
        return [PlanRecord(one, "a", "Seq Scan on t") for one in dict.fromkeys(statements)]

    monkeypatch.setattr(keeping, "plan_records", records)
    sql = "TRUNCATE t; SELECT 1 FROM t; UPDATE t SET n = 1; SELECT * FROM t WHERE password = 'x'"
    chain = chain_of(SMALL.replace("SELECT 1", sql))
    jobs = [JobRun(execution=1, process="load", job="copy", end=JobEnd.SUCCEEDED)]
    found = keeping.plans_of(None, "app", chain, jobs)  # type: ignore[arg-type]  # nobody is asked
    assert asked == ["SELECT 1 FROM t", "UPDATE t SET n = 1"]
    assert [one.statement for one in found] == ["load/copy: SELECT 1 FROM t", "load/copy: UPDATE t SET n = 1"]
    failed = [replace(jobs[0], end=JobEnd.FAILED)]
    assert keeping.plans_of(None, "app", chain, failed) == []  # type: ignore[arg-type]


def executed(study: str, runs: Sequence[int]) -> BatchResult:
    executions = tuple(BatchExecution(number=at, began_at=0.0, window_s=1.0, run=run) for at, run in enumerate(runs, 1))
    return BatchResult(study=study, environment="e", chain="night", executions=executions)


def test_a_plan_that_changed_between_executions_is_on_the_page() -> None:
    study = replace(make_study(), result=executed("s", (1, 2, 3)))
    page = markdown.render(batch_page(StudyRecord(study, (), records={1: (SCAN,), 2: (SCAN,), 3: (INDEX,)})))
    assert "execution 2: 1 statement kept the shape of the plan." in page
    assert "execution 3, load/copy: SELECT 1: Seq Scan on items became Index Scan using items\\_id on items." in page
    assert "Execution plans" not in markdown.render(batch_page(StudyRecord(study, ())))


def test_a_plan_that_changed_between_two_sides_is_told_by_page_and_json() -> None:
    kept: Mapping[int, Sequence[PlanRecord]] = {1: [SCAN], 2: [SCAN], 7: [INDEX], 8: [INDEX]}
    store: Any = SimpleNamespace(records=lambda run, _kind: kept[run])
    old, new = executed("old", (1, 2)), executed("new", (7, 8))
    changes = keeping.changed_plans(store, old, new)
    assert [one.word for one in changes] == ["changed"]
    assert keeping.changed_plans(store, replace(old, imported=True), new) == []
    chain = chain_of()
    rows = "process,job,start,end\nload,fetch,2026-10-30 22:00:00,2026-10-30 22:30:00\n"
    sides = recorded(chain, rows), recorded(chain, rows)
    said = compare(chain, *sides)
    assert "became Index Scan using items" in markdown.render(compare_page(chain, *sides, said, changes))
    assert comparison_json(said, changes)["plans_changed"] == {
        "load/copy: SELECT 1": ["Seq Scan on items became Index Scan using items_id on items"]
    }
    assert comparison_json(said)["plans_changed"] == {}
