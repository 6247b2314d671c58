"""`pgdyno live`: what is refused before any server is asked, and what the flags and a file of dbtune ask for."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pgdyno.cli import live
from pgdyno.cli.requests import dbtune, live_approval
from pgdyno.errors import UsageError
from pgdyno.studies.live.options import cost_of_periods


def refused(*words: str) -> str:
    result = CliRunner().invoke(live.command, [*words, "--target", "host=/nowhere"])
    if isinstance(result.exception, UsageError):
        return f"{result.exception.message} {result.exception.detail or ''} {result.exception.hint}"
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give one of --watch-only, --b, --rule, --search, --resume, --again and --demo"),
        (("--demo", "--b", "work_mem=1MB"), "give one of"),
        (("--demo",), "--demo runs on a sandbox of its own"),
        (("--watch-only", "--b", "work_mem=1MB"), "give one of"),
        (("--search", "--b", "work_mem=1MB"), "give one of"),
        (("--search",), "no terminal to ask"),
        (("--rule", "max-wal-size"), "no terminal to ask"),
        (("--rule", "max-wal-siz", "--approve", "auto"), "max-wal-size"),
        (("--watch-only", "--candidates", "3"), "--candidates is for --search"),
        (("--b", "work_mem=1MB", "--exclude", "work_mem", "--approve", "auto"), "--exclude is for --search"),
        (("--b", "shared_buffers=1GB", "--allow-restart", "--approve", "auto"), "Give --windows 01:00-05:00"),
        (("--search", "--allow-restart", "--windows", "01:00-05:00"), "--allow-restart is for --b and --rule"),
        (("--b", "work_mem=1MB", "--a", "work_mem=2MB", "--allow-restart", "--windows", "01:00-05:00"), "as it is"),
        (("--b", "work_mem=1MB", "--windows", "01:00-05:00"), "--windows is for --allow-restart"),
        (("--b", "work_mem=1MB", "--period", "10"), "--period is for --allow-restart"),
        (("--b", "work_mem=1MB", "--allow-restart", "--windows", "1-5", "--approve", "auto"), "HH:MM-HH:MM"),
        (
            (
                "--b",
                "work_mem=1MB",
                "--allow-restart",
                "--windows",
                "01:00-05:00",
                "--period",
                "10",
                "--approve",
                "auto",
            ),
            "--wash-out 10 min leaves nothing of a --period of 10 min",
        ),
        (("--resume", "last", "--allow-restart", "--windows", "01:00-05:00"), "--allow-restart"),
        (("--resume", "last", "--max-pairs", "9"), "--max-pairs cannot be changed when a study is resumed"),
        (("--resume", "last", "--guard", "errors=off"), "--guard cannot be changed when a study is resumed"),
        (("--search", "--critical", "7", "--approve", "auto"), "--critical is for --b and --rule"),
        (("--watch-only", "--a", "work_mem=1MB"), "--a needs --b to compare it with"),
        (("--b", "work_mem"), '--b "work_mem" is not KNOB=VALUE'),
        (("--b", "work_mem=1MB,work_mem=2MB"), "sets work_mem twice"),
        (("--b", "work_mem=1MB"), "no terminal to ask"),
        (("--b", "work_mem=1MB", "--approve", "class-A"), "no terminal to ask"),
        (("--b", "work_mem=1MB", "--approve", "auto", "--reference", "90s"), "--reference 1.5 min is too short"),
        (("--b", "work_mem=1MB", "--approve", "auto", "--budget", "31min"), "--budget 31 min has no room"),
        (("--b", "work_mem=1MB", "--approve", "auto", "--guard", "nothing=1"), "backlog"),
        (("--b", "work_mem=1MB", "--approve", "auto", "--max-pairs", "2"), "--max-pairs"),
        (("--b", "work_mem=1MB", "--approve", "perhaps"), "--approve"),
        (("--b", "work_mem=1MB", "--approve", "auto", "--not-during", "18-20"), 'window "18-20" cannot be read'),
        (("--resume", "last", "--not-during", "18:00-20:00"), "--not-during cannot be changed when a study is resumed"),
        (("--watch-only", "--not-during", "25:00-26:00"), "--not-during is for studies that change settings"),
        (("--watch-only", "--guard", "errors=off"), "--guard is for studies that change settings"),
        (("--watch-only", "--approve", "auto"), "--approve is for studies that change settings"),
        (("--watch-only", "--operator-token-file", "x"), "--operator-token-file is for studies that ask"),
        (("--demo", "--operator-token-file", "x"), "--demo runs on a sandbox"),
        (("--search", "--operator-token-file", "/dev/null"), "is not a file of yours"),
        (("--resume", "last", "--dbtune", "x.yml"), "--dbtune is for a new study"),
        (("--again", "last", "--resume", "last"), "give one of --watch-only"),
        (("--again", "last", "--max-pairs", "9"), "--max-pairs cannot be changed when a study is resumed"),
    ],
)
def test_what_cannot_be_is_refused_before_a_server_is_asked(words, said):
    assert said in refused(*words)


FILE = """postgresql:
  connection_string: host=/nowhere user=dba password=hunter2
  restart_command: su postgres -c "pg_ctl restart -D /data"
guardrail_settings: {memory_threshold: 85}
dbtune: {api_key: s3cret}
"""


def taken(tmp_path, text, *words):
    """Return the flags after the file was heard, the times that it names, and what was said."""
    path = tmp_path / "dbtune.yml"
    path.write_text(text)
    path.chmod(0o600)
    with (
        CliRunner().isolation() as (_, err, _both),
        live.command.make_context("live", ["--watch-only", "--dbtune", str(path), *words]) as context,
    ):
        return *dbtune.take_file(live.LiveFlags.of(context.params)), err.getvalue().decode()


@pytest.mark.requirement("R-TUN-02")
def test_a_file_of_dbtune_stands_where_no_flag_was_typed_and_its_secrets_are_not_told(tmp_path):
    flags, times, said = taken(tmp_path, FILE)
    assert flags.target == "host=/nowhere user=dba password=hunter2"
    assert flags.restart_command.endswith("-u postgres -- pg_ctl restart -D /data")
    assert (flags.guards, times) == (("memory=15%",), None)
    assert "not used: dbtune.api_key" in said
    assert "hunter2" not in said
    assert "s3cret" not in said
    flags, _, _ = taken(tmp_path, FILE, "--target", "host=/there", "--restart-command", "true", "--guard", "memory=2GB")
    assert flags.target == "host=/there"
    assert (flags.restart_command, flags.guards) == ("true", ("memory=2GB",))


@pytest.mark.requirement("R-TUN-02", "R-TUN-03")
def test_its_times_are_a_period_with_a_wash_out_and_cost_a_budget_that_holds_three_pairs(tmp_path):
    named = "connection_string: host=/nowhere\ntuning_session:\n  warmup_time: {}\n  measurement_time: {}\n"
    flags, times, said = taken(tmp_path, named.format(1200, 1800), "--budget", "6h")
    assert times == dbtune.FileTimes(3000.0, 1200.0)
    assert "not counted" in said
    found = live._options(flags, times)
    assert (found.period_s, found.wash_s) == (3000.0, 1200.0)
    assert any("holds 0.6 pairs" in note for note in cost_of_periods(found))
    flags, times, _ = taken(tmp_path, named.format(120, 180))
    assert live._options(flags, times).period_s == 300.0
    flags, times, _ = taken(tmp_path, named.format(1200, 1800))
    with pytest.raises(UsageError, match="has no room") as told:
        live._options(flags, times)
    assert "330min" in told.value.hint
    with pytest.raises(UsageError, match="longer than measurement_time"):
        taken(tmp_path, named.format(600, 60))
    flags, times, _ = taken(tmp_path, FILE + "measurement_time: 300\n")
    assert times == dbtune.FileTimes(420.0, 120.0)


@pytest.mark.parametrize(
    ("words", "times", "period_s", "wash_s", "pairs", "budget_min"),
    [
        ((), None, 1800, 600, 4, 30 + 6 * 63),
        ((), dbtune.FileTimes(3000.0, 1200.0), 3000, 1200, 4, 30 + 6 * 103),
        (("--period", "20", "--wash-out", "5"), dbtune.FileTimes(3000.0, 1200.0), 1200, 300, 4, 30 + 6 * 43),
        (("--max-pairs", "6", "--budget", "20h"), None, 1800, 600, 6, 1200),
    ],
)
def test_a_study_in_windows_has_long_periods_few_pairs_and_time_for_them(
    words, times, period_s, wash_s, pairs, budget_min
):
    given = ["--b", "shared_buffers=1GB", "--allow-restart", "--windows", "01:00-05:00", *words]
    with live.command.make_context("live", given) as context:
        found = live._options(live.LiveFlags.of(context.params), times)
    assert (found.period_s, found.wash_s, found.design.max_pairs) == (period_s, wash_s, pairs)
    assert found.budget_s == 60 * budget_min
    assert found.windows == ("01:00-05:00",)


def test_several_settings_are_split_at_the_commas_between_them_alone():
    with live.command.make_context(
        "live", ["--b", "work_mem=64MB, random_page_cost=1.1", "--b", "temp_tablespaces=a,b"]
    ) as context:
        assert live_approval.settings_of(live.LiveFlags.of(context.params).b_words, "--b") == {
            "work_mem": "64MB",
            "random_page_cost": "1.1",
            "temp_tablespaces": "a,b",
        }
