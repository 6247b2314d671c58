"""Backup folders by the files of backup tools: paths of this host alone, and never a key that stands beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.capture import backup_tools
from pgdyno.capture.backup_tools import backup_folders
from pgdyno.capture.server_queries import _archive_folders
from pgdyno.owner.account import Account
from pgdyno.owner.hands import Hands

CASES = {
    "etc/pgbackrest/pgbackrest.conf": (
        "[global]\nrepo1-path = /backup/repo/\nrepo1-cipher-pass=geheim\n"
        "repo2-path=/far\nrepo2-host=backup1\nrepo3-path=/bucket\nrepo3-type=s3\nrepo3-s3-key-secret=geheim\n"
        "# repo4-path=/off\n[main]\npg1-path=/data\n",
        {"/backup/repo": "pgBackRest"},
    ),
    "etc/pgbackrest/conf.d/one.conf": ("repo1-path=/one\n", {"/one": "pgBackRest"}),
    "etc/barman.conf": ("[barman]\nbarman_home = /var/lib/barman\n", {"/var/lib/barman": "Barman"}),
    "etc/barman.d/db1.conf": (
        "[db1]\nbackup_directory = /b/db1\nconninfo = host=db1 password=geheim\n",
        {"/b/db1": "Barman"},
    ),
    "etc/wal-g.d/env/WALG_FILE_PREFIX": ("/walg\n", {"/walg": "WAL-G"}),
    "var/lib/postgresql/.walg.json": (
        json.dumps({"WALG_FILE_PREFIX": "/w", "AWS_SECRET_ACCESS_KEY": "geheim"}),
        {"/w": "WAL-G"},
    ),
    "etc/wal-g.json": ("{ cut", {}),
    "etc/pgbackrest.conf": ("repo1-path=relative\n", {}),
}


@pytest.mark.requirement("R-STO-05")
@pytest.mark.parametrize("name", CASES)
def test_folders_of_this_host_are_found_and_nothing_else(tmp_path: Path, name: str) -> None:
    text, expected = CASES[name]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    found = backup_folders(tmp_path)
    assert found == expected
    assert "geheim" not in str(found)


def test_a_host_without_such_tools_has_none_and_starts_no_process_to_see_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(account: Account) -> Hands:
        raise AssertionError(account)

    monkeypatch.setattr(backup_tools, "hands_for", started)
    (tmp_path / "etc").mkdir()
    (tmp_path / "var/lib/postgresql").mkdir(parents=True)
    assert backup_folders(tmp_path) == {}


class Session:
    """Stands for a session whose file names the folder of basic_archive."""

    def execute(self, query: str) -> list[dict[str, str]]:
        assert "basic_archive.archive_directory" in query
        return [{"folder": "/library"}]


@pytest.mark.requirement("R-STO-05")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"archive_mode": "on", "archive_library": "basic_archive", "archive_command": ""}, ["/library"]),
        ({"archive_mode": "off", "archive_library": "basic_archive", "archive_command": ""}, []),
        ({"archive_mode": "on", "archive_library": "", "archive_command": "cp %p /command/%f"}, ["/command"]),
        ({"archive_mode": "on", "archive_command": "cp %p /command/%f"}, ["/command"]),
        ({"archive_mode": "off", "archive_command": "(disabled)"}, []),
    ],
)
def test_the_archive_is_known_by_command_or_library(settings: dict[str, str], expected: list[str]) -> None:
    rows = [{"name": name, "setting": setting} for name, setting in settings.items()]
    assert _archive_folders(Session(), rows) == expected  # type: ignore[arg-type]
