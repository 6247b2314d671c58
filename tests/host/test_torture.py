"""A short run of bench/torture: every scene once, and a few kills of a real tune."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import scenes
from kills import Kills, summary

pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.alone,
]
KILLS = 5


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts and cgroups need root")
@pytest.mark.parametrize("scene", sorted(scenes.SCENES))
def test_every_scene_ends_with_the_server_as_it_was(server_home: Path, scene: str) -> None:
    if scene == "starving" and not (scenes.MEMORY_CGROUPS / "cgroup.procs").exists():
        pytest.skip("this machine has no version 1 memory cgroups")
    assert scenes.play_all(server_home, rounds=1, seed=5, names=(scene,)) == 0


def test_kills_of_a_real_tune(server_home: Path) -> None:
    kills = Kills(server_home, random.Random(6), linux=os.geteuid() == 0)
    try:
        for _ in range(KILLS):
            kills.once()
    finally:
        kills.close()
    assert all(kill.whole for kill in kills.done), summary(kills.done)
    assert any(kill.doing != "no session" for kill in kills.done), summary(kills.done)
