"""No secret of a setting, a command or a kernel line gets into a capture."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.capture.secrets import archive_folder, public_command, public_setting, public_text

SECRET = "s3cr3t-Of-Ours"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("primary_conninfo", f"host=db1 user=repl password={SECRET} port=5432"),
        ("primary_conninfo", f"postgresql://repl:{SECRET}@db1/"),
        ("ssl_passphrase_command", f"echo {SECRET}"),
        ("archive_command", f"AWS_SECRET_ACCESS_KEY={SECRET} aws s3 cp %p s3://wal/%f"),
        ("archive_command", f"curl -u wal:{SECRET} -T %p https://store/%f"),
        ("restore_command", f"scp -i /keys/{SECRET} db2:/wal/%f %p"),
        ("archive_cleanup_command", f"clean --token {SECRET}"),
        ("recovery_end_command", f"'{SECRET}"),
        ("my_extension.api_key", SECRET),
        ("my_extension.secret", SECRET),
        ("pgaudit.password", SECRET),
    ],
)
def test_a_secret_is_left_out(name: str, value: str) -> None:
    shown = public_setting(name, value)
    assert shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password_encryption", "scram-sha-256"),
        ("archive_command", "(disabled)"),
        ("archive_command", ""),
        ("work_mem", "4096"),
    ],
)
def test_what_is_no_secret_stays(name: str, value: str) -> None:
    assert public_setting(name, value) == value
    assert public_setting(name, None) is None


@given(st.text())
def test_of_a_command_with_arguments_the_program_is_all_that_stays(arguments: str) -> None:
    shown = public_command(f"pgbackrest {arguments} x")
    assert shown in ("pgbackrest (left out)", "(left out)")


def test_the_folder_of_an_archive_is_a_place_and_no_secret() -> None:
    assert archive_folder("test ! -f /mnt/wal/%f && cp %p /mnt/wal/%f") == "/mnt/wal"
    assert archive_folder("pgbackrest --stanza=main archive-push %p") is None


def test_a_kernel_line_has_no_password() -> None:
    assert SECRET not in public_text(f"root=/dev/vda nfsopts=user,password={SECRET} quiet")
