"""A session file of another tuner: its keys are taken, its secrets are not told, and nothing in it is built or run."""

from __future__ import annotations

import os

import pytest

from pgdyno.errors import UsageError
from pgdyno.studies.live.dbtune_file import MOST_BYTES, read_dbtune

CLIENT = """
postgresql:
  connection_string: user=postgres dbname=ybio
  restart_command: su postgres <<<"pg_ctl restart -D /var/lib/pgsql/data"
tuning_session:
  warmup_time: 1200
  measurement_time: 1800
"""
AGENT = """
debug: true
postgresql:
  connection_url: postgresql://dba@db1:5432/app
  service_name: postgresql-17
  include_queries: false
dbtune:
  server_url: https://example.org
  api_key: "a-secret"
guardrail_settings:
  memory_threshold: 85
collectors: {pg_class: {enabled: false}}
"""


def read(tmp_path, text, **more):
    path = tmp_path / "dbtune_config.yml"
    path.write_text(text)
    path.chmod(0o600)
    return read_dbtune(path, **more)


@pytest.mark.requirement("R-TUN-02")
@pytest.mark.parametrize("indent", [True, False])
def test_the_keys_of_its_client_are_taken_whether_indented_or_not(tmp_path, indent):
    text = CLIENT if indent else CLIENT.replace("  ", "")
    found = read(tmp_path, text)
    assert found.connection == "user=postgres dbname=ybio"
    assert found.restart_command[-4:] == ("pg_ctl", "restart", "-D", "/var/lib/pgsql/data")
    assert "postgres" in found.restart_command
    assert (found.warmup_s, found.measurement_s, found.unused) == (1200.0, 1800.0, ())


@pytest.mark.requirement("R-TUN-02")
def test_the_keys_of_its_agent_are_taken_and_the_others_named_without_their_values(tmp_path):
    found = read(tmp_path, AGENT)
    assert found.connection == "postgresql://dba@db1:5432/app"
    assert (found.restart_command, found.memory_percent) == (None, 85.0)
    assert {"dbtune.api_key", "debug", "postgresql.service_name", "collectors.pg_class"} <= {*found.unused}
    assert "a-secret" not in repr(found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no keys"),
        ("- a", "no keys"),
        ("postgresql:\n  service_name: x", "names no server"),
        ("connection_string: a\nwarmup_time: x", "no number"),
        ("connection_string: a\nwarmup_time: -1", "no number"),
        ("connection_string: a\nwarmup_time: nan", "no number"),
        ("connection_string: a\nmemory_threshold: 100", "no number"),
        ("connection_string: a\nrestart_command: reboot; id", "needs a shell"),
        ("a: &x [1]\nb: *x", "anchors and aliases"),
        ("a: &x {<<: *x}", "anchors and aliases"),
        ("a: " + "[" * 50 + "]" * 50, "deeper than 8"),
        ("[" * 30_000, "deeper than 8"),
        ("connection_string: a\nconnection_string: b", "twice"),
        ("? [a]\n: b", "a key is no text"),
        ("a: b\n---\nc: d", "cannot be read"),
        ("a: [", "cannot be read"),
        ("a: \x07", "cannot be read"),
        ("a: \0", "special characters are not allowed in"),
        ("#" * (MOST_BYTES + 1), "cannot be read"),
    ],
)
def test_what_is_no_such_file_is_refused_by_its_fault(tmp_path, text, why):
    with pytest.raises(UsageError, match=why):
        read(tmp_path, text)


def test_tags_build_nothing(tmp_path):
    target = tmp_path / "made"
    found = read(tmp_path, f"connection_string: a\nx: !!python/object/apply:os.mkdir ['{target}']\ny: !!binary aGk=")
    assert not target.exists()
    assert found.unused == ("x", "y")


def test_a_command_that_others_could_change_is_not_taken(tmp_path):
    path = tmp_path / "dbtune_config.yml"
    path.write_text(CLIENT)
    path.chmod(0o666)
    with pytest.raises(UsageError, match="others could change it"):
        read_dbtune(path)
    path.write_text("connection_string: a")
    assert read_dbtune(path).connection == "a"
    with pytest.raises(UsageError, match="cannot be read"):
        read_dbtune(tmp_path / "absent.yml")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot be read"):
        read_dbtune(tmp_path / "pipe")


@pytest.mark.parametrize(
    "line",
    ["connection_url: postgresql://dba:geheim@db1/app", "connection_string: user=dba password=geheim dbname=app",
     "connection_string: host=db1 sslpassword=geheim"],
)  # fmt: skip
def test_a_password_that_others_may_read_is_refused_and_not_told(tmp_path, line):
    path = tmp_path / "dbtune config.yml"
    path.write_text(f"postgresql:\n  {line}\n")
    for mode in (0o644, 0o640, 0o604):
        path.chmod(mode)
        with pytest.raises(UsageError, match=f"holds a password, and its mode {mode:04o}") as refused:
            read_dbtune(path)
        assert f"chmod 600 '{path}'" in str(refused.value.hint)
        assert "geheim" not in f"{refused.value} {refused.value.detail} {refused.value.hint}"
    path.chmod(0o600)
    assert "geheim" in str(read_dbtune(path).connection)


def test_the_mode_is_that_of_the_file_that_was_read(tmp_path, monkeypatch):
    """Its name may be another file's by the time that it is asked whose it is."""
    path, private = tmp_path / "dbtune.yml", tmp_path / "private"
    path.write_text("postgresql:\n  connection_url: postgresql://dba:geheim@db1/app\n")
    path.chmod(0o644)
    private.touch(0o600)
    was = type(path).stat
    monkeypatch.setattr(type(path), "stat", lambda one, **kept: was(private if one == path else one, **kept))
    with pytest.raises(UsageError, match="holds a password, and its mode 0644"):
        read_dbtune(path)
