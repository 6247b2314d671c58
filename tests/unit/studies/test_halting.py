"""What ends the jobs of a batch or a migration: the order of its reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.studies.session import guarding


@pytest.mark.requirement("R-SAF-12")
def test_a_stop_file_is_told_before_the_time_and_the_time_before_a_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, breached, stop = [100.0], [""], tmp_path / "stop"
    monkeypatch.setattr(guarding.time, "monotonic", lambda: now[0])
    halt = guarding.halting(60.0, stop, lambda: breached[0])
    assert halt() == ""
    breached[0] = "disk"
    assert halt() == "disk"
    now[0] = 159.0
    assert halt() == "disk"
    assert halt(1.0) == "disk", "what just fits is begun"
    assert halt(1.5) == "--max-seconds 60"
    now[0] = 160.0
    assert halt() == "--max-seconds 60"
    stop.symlink_to(tmp_path / "nowhere")
    assert halt() == "the stop file"


def test_without_a_stop_file_the_guards_are_asked() -> None:
    assert guarding.halting(1e6, None, lambda: "temp")() == "temp"
