"""Bad plans are refused with line, place and value, before a server is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.migrate import command
from pgdyno.errors import UsageError
from pgdyno.migration.plan import MigrationPlan, PlannedReplay
from pgdyno.model.results.migrate import MigrationPhase
from pgdyno.studies.migrate.file import parse_plan

PLAN = """\
version = 1
[migration]
name = "shop to 18"
source = "host=old dbname=shop user=dba"
target = "host=new dbname=postgres user=dba"
folder = "/srv/migration"
jobs = 2
window = "40h"
[mover]
compress = 0
[load]
max_wal_size = "16GB"
[[phase]]
name = "import"
planned = "6h"
[[phase]]
name = "sequences"
after = ["import"]
"""


def plan_of(text: str = PLAN) -> MigrationPlan:
    return parse_plan(text, source="shop.toml")


def test_a_plan_is_read_as_it_stands() -> None:
    assert plan_of().full_bytes is None
    plan = plan_of(PLAN.replace("jobs = 2", 'jobs = 2\nfull_size = "500GB"'))
    assert plan.full_bytes == 500 << 30
    assert (plan.database, plan.target_database, plan.jobs, plan.window_s) == ("shop", "shop", 2, 144_000.0)
    assert plan.options == {"compress": "0"}
    assert plan.load == {"max_wal_size": "16GB"}
    assert plan.lines["load.max_wal_size"] == 13
    knob = plan_of(PLAN.replace('max_wal_size = "16GB"', '\n"vm.dirty_bytes" = "64MB"'))
    assert (knob.load, knob.lines["load.vm.dirty_bytes"]) == ({"vm.dirty_bytes": "64MB"}, 13)
    assert plan.phases[MigrationPhase.IMPORT].planned_s == 21_600.0
    assert plan.phases[MigrationPhase.SEQUENCES].after == (MigrationPhase.IMPORT,)


@pytest.mark.requirement("R-MIG-01")
@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('after = ["import"]', 'after = ["validation"]', 16, "phases wait for each other: "),
        ('after = ["import"]', 'after = ["imports"]', 18, 'there is no phase "imports"'),
        ('name = "sequences"', 'name = "catch-up"', 16, 'mover "dump" has no phase "catch-up"'),
        ('planned = "6h"', 'planned = "6"', 15, 'planned "6" is not a time with a unit'),
        ('window = "40h"', 'window = "40GB"', 8, "window: "),
        ('window = "40h"', 'window = "0s"', 8, 'window "0s" has no length'),
        ('window = "40h"', 'full_size = "40h"', 8, "40h"),
        ('jobs = 2', "jobs = 0", 7, "jobs 0 is not from 1 to 64"),
        ("host=new dbname=postgres user=dba", "host=old user=dba dbname=shop", 5, "target and source are the same"),
        ("host=old dbname=shop user=dba", "host=old dbname=shop password=x", 4, "source has a password in it"),
        ("host=old dbname=shop user=dba", "host=old dbname=shop sslpassword=x", 4, "source has a sslpassword in it"),
        ("host=old dbname=shop user=dba", "host=old dbname=shop passwd x", 4, "connection string cannot be read"),
        ("host=old dbname=shop user=dba", "host=old user=dba", 4, "it names no database"),
        ('folder = "/srv/migration"', 'folder = "dumps"', 6, 'folder "dumps" is not a whole path'),
        ("compress = 0", "compres = 0", 10, 'mover "dump" has no option "compres"'),
        ('max_wal_size = "16GB"', "vm.dirty_bytes = 4096", 12, "vm is a table"),
        ('max_wal_size = "16GB"', "max_wal_size = true", 12, "max_wal_size is neither a text nor a number"),
        ('jobs = 2', 'mover = "pg_dmp"', 7, 'there is no mover "pg_dmp"'),
        ('jobs = 2', "jobs = 2\nspeed = 3", 8, "speed"),
        ("[[phase]]\nname = \"import\"", '[replay]\nspeed = 2\n[[phase]]\nname = "import"', 13, "trace"),
        ('compress = 0', 'compress = 0\n[replay]\ntrace = "t.parquet"', 12, 'trace "t.parquet" is not a whole path'),
        ('compress = 0', 'compress = 0\n[replay]\ntrace = "/t"\nspeed = 0', 13, "speed 0 is not from 0.001 to 1000"),
        ('compress = 0', 'compress = 0\n[replay]\ntrace = "/t"\nunlike_limit = "1"', 13, 'unlike_limit "1" is not'),
        ('compress = 0', 'compress = 0\n[replay]\ntrace = "/t"\nerror_limit = "101 %"', 13, 'error_limit "101 %" is'),
        ('compress = 0', 'compress = 0\n[replay]\ntrace = "/t"\ntraces = 1', 13, "traces"),
    ],
)  # fmt: skip
def test_a_slip_is_told_with_its_line(old: str, new: str, line: int, words: str) -> None:
    assert PLAN.count(old) == 1
    with pytest.raises(UsageError) as caught:
        plan_of(PLAN.replace(old, new))
    assert f"shop.toml: line {line}: " in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("reach", ["host=old password=hunter2", "postgresql://dba:hunter2@old/shop"])
def test_how_a_target_reaches_the_source_is_told_without_a_password(reach: str) -> None:
    text = PLAN.replace("jobs = 2", 'mover = "logical"').replace("compress = 0", f'reach = "{reach}"')
    with pytest.raises(UsageError, match="line 10: mover: ") as caught:
        plan_of(text.replace('after = ["import"]', "").replace('name = "sequences"', 'name = "catch-up"'))
    assert "hunter2" not in caught.value.one_line


def test_a_bad_plan_ends_the_verb_with_2_before_a_server_is_asked(tmp_path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace('after = ["import"]', 'after = ["validation"]'))
    path.chmod(0o600)
    found = CliRunner().invoke(command, ["rehearse", str(path)])
    assert isinstance(found.exception, UsageError)
    assert int(found.exception.exit_code) == 2


def test_more_jobs_than_allowed_are_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    path.chmod(0o600)
    found = CliRunner().invoke(command, ["rehearse", str(path), "--jobs", "1,4", "--max-clients", "3"])
    assert isinstance(found.exception, UsageError)
    assert "the rehearsal has 4 parallel jobs, and --max-clients is 3" in str(found.exception)


def test_a_size_that_is_none_is_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    path.chmod(0o600)
    found = CliRunner().invoke(command, ["rehearse", str(path), "--max-size", "lots"])
    assert isinstance(found.exception, UsageError)
    assert '"lots" is not a number with a unit' in str(found.exception)


REPLAY = '\n[replay]\ntrace = "/srv/hour.parquet"\nspeed = 2\nunlike_limit = "0 %"\n'


def test_a_replay_is_part_of_the_plan_and_of_its_seal() -> None:
    plan = plan_of(PLAN + REPLAY)
    assert plan.replay == PlannedReplay("/srv/hour.parquet", 2.0, 1.0, 0.0)
    assert plan.lines["trace"] == len(PLAN.splitlines()) + 3
    assert plan_of().replay is None
    assert plan.fingerprint == plan_of().fingerprint
    assert plan.seal != plan_of().seal


def test_a_mover_that_leaves_the_target_as_it_is_takes_no_replay() -> None:
    text = PLAN[: PLAN.index("[mover]")] + REPLAY
    with pytest.raises(UsageError, match='replay: mover "pg_upgrade" makes a server of its own'):
        plan_of(text.replace("jobs = 2", 'mover = "pg_upgrade"'))


def test_the_examples_are_read() -> None:
    examples = list((Path(__file__).parents[3] / "examples" / "migrate").glob("*.toml"))
    assert len(examples) > 1
    for path in examples:
        assert parse_plan(path.read_text(), source=path.name).name


def test_what_is_moved_and_how_decides_which_rehearsals_make_a_trend() -> None:
    plan = plan_of()
    assert plan.fingerprint == plan_of(PLAN.replace("jobs = 2", "jobs = 1").replace("16GB", "1GB")).fingerprint
    assert plan.fingerprint != plan_of(PLAN.replace("shop to 18", "shop to 17")).fingerprint
    assert plan.seal != plan_of(PLAN.replace("16GB", "1GB")).seal
