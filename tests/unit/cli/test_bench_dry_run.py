"""`bench --dry-run`: what a run would be, with neither a server nor a store nor a sandbox made."""

import shlex

import pytest
from click.testing import CliRunner

from pgdyno.cli.main import command
from pgdyno.errors import ExitCode, UsageError


def dry_run(*words):
    result = CliRunner().invoke(command, ["bench", "--dry-run", *words])
    return result, result.output.splitlines()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.requirement("R-BEN-07")
def test_clients_threads_and_no_reconnect_stand_in_pgbenchs_command_line(home):
    result, lines = dry_run("-w", "simple-update", "-c", "12", "-j", "3", "--warmup", "5s", "--measure", "1min")
    assert result.exit_code == 0, result.output
    words = shlex.split(lines[-1])
    assert words[words.index("-c") + 1] == "12"
    assert words[words.index("-j") + 1] == "3"
    assert words[words.index("-T") + 1] == "65"
    assert "simple-update@1" in words
    assert "-C" not in words
    assert all(line.startswith("# ") for line in lines[:-1])
    assert not home.exists(), "nothing was made"


@pytest.mark.requirement("R-BEN-07")
def test_a_connection_for_each_transaction_is_asked_for():
    _, lines = dry_run("-C", "--rate", "50")
    words = shlex.split(lines[-1])
    assert "-C" in words
    assert words[words.index("-R") + 1] == "50"


def test_scripts_of_the_package_are_shown_with_their_weights():
    _, lines = dry_run("-w", "tprocc", "-D", "warehouses=3")
    weights = {line.split()[2].rstrip(","): int(line.split()[4].rstrip(":")) for line in lines if "weight" in line}
    assert sum(weights.values()) == 10_000
    assert weights["new_order"] == 99 * weights["new_order_rolled_back"]
    assert any("FROM tproc_payment" in line for line in lines)
    for name, weight in weights.items():
        assert f"-f {name}.sql@{weight}" in lines[-1]


def test_sessions_of_pgdynos_own_have_no_command_line():
    _, lines = dry_run("-w", "ybio", "-D", "driver=loop", "-D", "class=fits-ram-once")
    assert "sized by host and server" in lines[0]
    assert "sessions of pgdyno's own" in lines[-1]
    assert all(line.startswith("# ") for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-w", "tprocc", "-D", "nosuch=1"], 'has no parameter "nosuch"'),
        (["-w", "ybio", "-D", "class=huge"], 'class "huge"'),
        (["-w", "custom"], "needs scripts"),
    ],
)
def test_a_wrong_load_is_refused_as_a_run_would_refuse_it(words, said):
    result, _ = dry_run(*words)
    assert said in str(result.exception)
    assert result.exception.exit_code == ExitCode.USAGE


@pytest.mark.parametrize("words", [["-R", "5"], ["-C"]])
def test_the_loop_of_sessions_refuses_what_it_cannot_do_as_a_run_does_before_it_asks_a_server(home, words):
    flags = ["-w", "ybio", "-D", "driver=loop", *words]
    for result in (dry_run(*flags)[0], CliRunner().invoke(command, ["bench", *flags])):
        assert isinstance(result.exception, UsageError)
        assert "driver=loop has no --rate" in str(result.exception)
    assert not (home / "cache").exists(), "no sandbox was made"


@pytest.mark.parametrize("load", ["tprocc", "select-only", "ybio"])
def test_no_comment_is_longer_than_the_terminal_is_wide(load, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, lines = dry_run("-w", load)
    comments = [line for line in lines if line.startswith("# ") and not line.startswith("#   ")]
    assert comments
    assert max(map(len, comments)) <= 80
    assert lines[-1].startswith("pgbench ") or "/pgbench " in lines[-1] or load == "ybio"
