"""The benchmark of the forecast, where it cannot begin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[3] / "bench" / "forecast.py"


def test_a_build_that_is_none_is_told_and_no_folder_stays(tmp_path: Path) -> None:
    words = [sys.executable, str(BENCH), "--source-bin", str(tmp_path / "none")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _, said = process.communicate()
    assert process.returncode == 1
    assert "Traceback" not in said
    assert f"{tmp_path / 'none'}" in said
    assert not [*Path("/var/tmp").glob(f"bench-forecast-{process.pid}-*")]
