"""`pgdyno inspect --root`: flags, exit codes and outputs, without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from captured import CAPTURES, LOOSE
from pgdyno.cli.inspect import command
from pgdyno.errors import EnvironmentUnsuitable, ExitCode, PgdynoError, UsageError


def run(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), standalone_mode=False)


def error_of(*words: str) -> PgdynoError:
    error = run(*words).exception
    assert isinstance(error, PgdynoError)
    return error


def test_a_captured_folder_is_shown_and_ends_well() -> None:
    result = run("--root", str(CAPTURES / "ppc64le-64k"))
    assert result.exception is None
    assert result.return_value == ExitCode.OK
    assert "9105-22A" in result.output


@pytest.mark.requirement("R-INV-20")
def test_what_no_server_knows_comes_from_flags() -> None:
    folder = str(CAPTURES / "s390x-drawer")
    found = json.loads(run("--root", folder, "--json").stdout)
    assert found["criticality"].keys() == found["utilization"].keys() == {"unknown"}
    assert found["size"] == "large"
    flags = ("--criticality", "business-critical", "--utilization", "high")
    found = json.loads(run("--root", folder, "--json", *flags).stdout)
    assert (found["criticality"], found["utilization"]) == ("business-critical", "high")


def test_settings_and_configuration_files_stand_in_for_the_server(tmp_path: Path) -> None:
    conf = tmp_path / "postgresql.conf"
    conf.write_text("shared_buffers = 4GB\n")
    folder = str(LOOSE / "ppc64le-qemu-6.1")
    result = run("--root", folder, "--pg-conf", str(conf), "--pg-version", "13.4")
    assert "PostgreSQL 13.4" in result.output
    assert "4GB" in result.output
    assert isinstance(error_of("--root", folder, "--pg-conf", str(conf)), UsageError)
    assert isinstance(error_of("--root", folder, "--pg-version", "13"), UsageError)
    assert isinstance(error_of("--root", folder, "--pg-settings", str(tmp_path / "absent")), UsageError)
    assert "PostgreSQL 13" in run("--pg-conf", str(conf), "--pg-version", "13").output
    assert isinstance(error_of("--pg-conf", str(conf), "--pg-version", "13", "--capture", folder), UsageError)


def test_where_nothing_can_be_read_the_environment_is_unsuitable(tmp_path: Path) -> None:
    error = error_of("--root", str(tmp_path))
    assert isinstance(error, EnvironmentUnsuitable)
    assert error.exit_code == ExitCode.UNSUITABLE
    assert isinstance(error_of("--root", str(tmp_path), "--capture", str(tmp_path)), UsageError)


def test_a_window_is_for_a_capture() -> None:
    assert isinstance(error_of("--window", "5"), UsageError)


def test_sections_by_name() -> None:
    result = run("--root", str(CAPTURES / "x86_64-128g"), "--section", "memory")
    assert "MEMORY" in result.output
    assert "STORAGE" not in result.output
    for words in ((), ("--json",)):
        assert isinstance(error_of("--root", str(CAPTURES / "x86_64-128g"), "--section", "disks", *words), UsageError)
