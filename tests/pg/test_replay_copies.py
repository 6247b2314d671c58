"""Which servers a replay may load: the source, its standby and an unmarked copy are refused, whoever names them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fix_captured_load import UNKNOWN, Captured, marked, options
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.replay.target_facts import captured_server, identify, mark_copy
from pgdyno.studies.replay.run import prepare
from pgdyno.studies.session.opening import opened
from pgdyno.targets.inspect import read_facts
from pgdyno.trace.schema import CapturedServer

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("replay")]


@pytest.mark.requirement("R-RPL-16", "R-SAF-09")
def test_the_source_its_standby_and_an_unmarked_copy_are_refused(captured: Captured, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnsuitable, match="the system identifier of the source"):
        prepare(captured.target, options(captured, tmp_path / "x"))
    for name, is_standby, why in (
        ("plain", False, "the system identifier of the source"),
        ("second", True, "a standby"),
    ):
        with captured.copy(name, standby=is_standby) as request, opened(request) as copy:  # noqa: SIM117 - one refuses
            with pytest.raises(EnvironmentUnsuitable, match=why):
                prepare(copy, options(captured, tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


def test_a_source_cannot_be_marked_as_its_own_copy(captured: Captured) -> None:
    target = captured.target
    with pytest.raises(EnvironmentUnsuitable, match="the same server"):
        mark_copy(identify(target, read_facts(target)), target, target, None, "", UNKNOWN)
    with pytest.raises(EnvironmentUnsuitable, match="the system identifier of the source"):
        prepare(target, options(captured, captured.home / "x"))


def test_a_source_is_not_marked_by_naming_its_copy_or_another_server_in_its_place(captured: Captured) -> None:
    target = captured.target
    known = identify(target, read_facts(target))
    until = str(target.postgres.fetch("SELECT pg_catalog.pg_current_wal_lsn()::text AS lsn")[0]["lsn"])
    with captured.copy("standby", standby=True) as request, opened(request) as standby:
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(known, target, standby, known.system_identifier, "", UNKNOWN)
        assert "a standby" in str(refused.value.detail)
        with pytest.raises(EnvironmentUnsuitable, match="after a failover it would be the source"):
            mark_copy(identify(standby, read_facts(standby)), standby, target, None, "", UNKNOWN)
        assert identify(standby, read_facts(standby)).marker is None
    with captured.copy("swapped") as request, opened(request) as copy:
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(known, target, copy, known.system_identifier, f"FF{until}", UNKNOWN)
        assert "its WAL is at" in str(refused.value.detail)
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(known, target, copy, "1", "", UNKNOWN)
        assert "system identifier" in str(refused.value.detail)
        marked(captured, request)
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(known, target, copy, known.system_identifier, "", UNKNOWN)
        assert "marked as a copy itself" in str(refused.value.detail)
    assert identify(target, read_facts(target)).marker is None


@pytest.mark.requirement("R-RPL-16", "R-SAF-09")
def test_of_two_copies_of_one_source_the_captured_one_is_never_marked(captured: Captured) -> None:
    with captured.copy("one") as first, captured.copy("two") as second, opened(first) as one, opened(second) as two:
        seen = captured_server(one)
        assert (seen.inode, seen.boot) == (one.directory.stat().st_ino, ProcessIdentity.own().boot_id)
        restarted = replace(seen, started_at="2026-11-27T10:00:00.000000+00:00")
        moved = replace(restarted, inode=seen.inode + 1)
        known = identify(one, read_facts(one))
        for server in (seen, restarted, CapturedServer(seen.started_at)):
            with pytest.raises(EnvironmentUnsuitable, match="it is the server that was captured"):
                mark_copy(known, one, two, known.system_identifier, "", server)
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(identify(two, read_facts(two)), two, one, known.system_identifier, "", moved)
        assert f"is inode {seen.inode} on device" in str(refused.value.detail)
        assert identify(one, read_facts(one)).marker is None
        assert identify(two, read_facts(two)).marker is None
        mark_copy(identify(two, read_facts(two)), two, one, known.system_identifier, "", restarted)
        assert identify(two, read_facts(two)).is_marked
