"""How a study stands of which nothing is heard any more, where no undo session tells of it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.linux.identity import ProcessIdentity, pid_namespace
from pgdyno.model.live import Live
from pgdyno.model.study import StudyKind
from pgdyno.studies.live.kind import WATCH_ONLY
from pgdyno.studies.session.aftermath import Aftermath, Aftermaths
from study_example import make_study

OWN = ProcessIdentity.own()
ALIVE = Live("s-1", time.time(), time.time(), "db1", OWN.pid, start_ticks=OWN.start_ticks, boot_id=OWN.boot_id,
             namespace=pid_namespace())  # fmt: skip
GONE = replace(ALIVE, pid=2**22, start_ticks=1)
ELSEWHERE = replace(GONE, boot_id="another")


@pytest.mark.parametrize("kind", [StudyKind.REPLAY, StudyKind.BATCH, StudyKind.WATCH])
def test_of_a_kind_that_changes_no_setting_nothing_is_to_be_restored(tmp_path: Path, kind: StudyKind) -> None:
    found = [Aftermaths(tmp_path).of(make_study(kind, "s-1"), live) for live in (GONE, ALIVE, ELSEWHERE)]
    assert found == [Aftermath.CLOSED, Aftermath.NO_SESSION, Aftermath.NO_SESSION]


def test_a_live_study_that_only_watches_leaves_nothing_to_restore(tmp_path: Path) -> None:
    study = make_study(StudyKind.LIVE, "s-1")
    assert Aftermaths(tmp_path).of(study, GONE) is Aftermath.UNKNOWN
    watched = replace(study, options={"live": {WATCH_ONLY: True, "reference_s": 600.0}})
    found = [Aftermaths(tmp_path).of(watched, live) for live in (GONE, ALIVE, ELSEWHERE)]
    assert found == [Aftermath.CLOSED, Aftermath.NO_SESSION, Aftermath.NO_SESSION]


def test_of_a_kind_that_does_the_place_where_it_was_begun_decides(tmp_path: Path) -> None:
    study = make_study(StudyKind.TUNE, "20261127-100000-tune-3fa9")
    assert Aftermaths(tmp_path).of(study, GONE) is Aftermath.UNKNOWN
    (tmp_path / "runs" / study.id).mkdir(parents=True)
    found = [Aftermaths(tmp_path).of(study, live) for live in (GONE, ALIVE, ELSEWHERE)]
    assert found == [Aftermath.CLOSED, Aftermath.OPEN, Aftermath.UNKNOWN]
