from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.bench import command
from pgdyno.errors import UsageError


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-w", "tprocc", "-D", "warehouses=0"], '"warehouses" of "tprocc" must be at least 1'),
        (["-w", "tprocc", "-D", "mix=45/43/4/4"], 'mix "45/43/4/4" is not known'),
        (["-w", "tprocc", "-D", "wharehouses=3"], 'no parameter "wharehouses"'),
        (["-w", "ybio", "-D", "class=huge"], 'class "huge"'),
        (["-w", "ybio", "-D", "class=exceeds", "-D", "tab_rows=5"], "cannot be used together"),
        (["--warmup", "0", "--measure", "2"], "together at least 3 s"),
        (["--warmup", "0.5", "--measure", "2.4"], "a warm-up of 0.5 s and a window of 2.4 s are too short"),
        (["-w", "ybio", "-D", "batch_size=0"], '"batch_size" of "ybio" must be at least 1, not 0'),
    ],
)
def test_a_wrong_load_is_refused_before_a_server_is_asked(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    nowhere = ["--target", f"host={tmp_path}"]
    with pytest.raises(UsageError, match=words):
        CliRunner().invoke(command, [*flags, *nowhere], catch_exceptions=False)
