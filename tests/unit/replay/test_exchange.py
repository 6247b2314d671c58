"""Files that are exchanged: killed before any rename, what is left is finished by what is on disk."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner.hands import hands_of
from pgdyno.replay import exchange
from pgdyno.replay.copy_proof import MARKER, read_marker
from pgdyno.replay.exchange import REPLACED, STAGED, ExchangeRecord, finish, finish_all_left, keep, left_exchanges

OLD, NEW = ("PG_VERSION", "backup_label", "base", "global"), ("PG_VERSION", "base", "global", "pg_wal")
STEPS = 4 + 4
"""Renames of a whole exchange."""


class Killed(BaseException):
    """What SIGKILL is to a process, as far as a test in one process has it."""


class Programs:
    """Does what the programs do, one rename at a time, and dies before one of them."""

    def __init__(self, dies_at: int = -1) -> None:
        self.moves, self.dies_at = 0, dies_at

    def run(self, argv: Sequence[str], **_: object) -> None:
        program, *words = argv
        if program == "mkdir":
            Path(words[-1]).mkdir(exist_ok=True)
        elif program == "rm":
            for word in words[2:]:
                shutil.rmtree(word, ignore_errors=True)
        elif program == "mv":
            for word in words[3:]:
                if self.moves == self.dies_at:
                    raise Killed
                self.moves += 1
                Path(word).rename(Path(words[1]) / Path(word).name)


class Server:
    def __init__(self, dies_at_start: bool = False) -> None:
        self.done, self.dies = list[str](), dies_at_start

    def start(self) -> None:
        if self.dies:
            raise Killed
        self.done.append("start")

    def stop(self, mode: str = "fast") -> None:
        self.done.append("stop")


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExchangeRecord:
    monkeypatch.setattr("pgdyno.server.places.state_dir", lambda: tmp_path / "state")
    directory = tmp_path / "data"
    for folder, names, word in ((directory, OLD, "old"), (directory / STAGED, NEW, "new")):
        for name in names:
            (folder / name).mkdir(parents=True)
            (folder / name / "word").write_text(word)
        (folder / "global" / "pg_control").write_bytes(struct.pack("=Q", 4711) + b"rest")
    (directory / "postgresql.conf").write_text("work_mem = '4MB'")
    return ExchangeRecord(str(directory), "copy", OLD, NEW, None, {"kind": "pg_ctl"})


def is_whole(record: ExchangeRecord) -> None:
    directory = Path(record.directory)
    found = {path.name: (path / "word").read_text() for path in directory.iterdir() if path.is_dir()}
    assert found == dict.fromkeys(NEW, "new")
    assert (directory / "postgresql.conf").read_text() == "work_mem = '4MB'"
    marker = read_marker((directory / MARKER).read_bytes())
    assert marker is not None
    assert (marker.system_identifier, marker.inode) == ("4711", directory.stat().st_ino)


def left(record: ExchangeRecord, monkeypatch: pytest.MonkeyPatch) -> tuple[Server, list[str]]:
    """Finish as the next run does, in which the process that was killed is gone."""
    server, told = Server(), list[str]()
    monkeypatch.setattr(ProcessIdentity, "is_alive", lambda _: False)
    monkeypatch.setattr("pgdyno.control.control_record.from_record", lambda *_, **__: server)
    monkeypatch.setattr(exchange, "LocalRunner", Programs)
    finish_all_left(told.append)
    return server, told


@pytest.mark.requirement("R-RPL-16")
@pytest.mark.parametrize("step", range(STEPS + 1))
def test_a_kill_before_any_rename_is_finished_by_the_next_run(
    record: ExchangeRecord, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, programs = keep(record), Programs(step)
    with pytest.raises(Killed):
        finish(record, path, Server(dies_at_start=True), hands_of(Path(record.directory)), programs)  # type: ignore[arg-type]
    assert programs.moves == step, "the last one dies at the start of the server"
    assert list(left_exchanges()) == [], "who owns it lives"
    server, told = left(record, monkeypatch)
    assert server.done == ["stop", "start"]
    assert "that is finished" in told[0]
    is_whole(record)
    assert list(left_exchanges()) == []


def test_what_is_over_is_not_done_again(record: ExchangeRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keep(record)
    content = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    finish(record, path, Server(), hands_of(Path(record.directory)), Programs())  # type: ignore[arg-type]
    is_whole(record)
    assert not path.exists()
    path.write_bytes(content)  # killed after the last rename, before this went
    (Path(record.directory) / "backup_label").write_text("the server's own")
    server, _ = left(replace(record), monkeypatch)
    assert server.done == ["stop", "start"]
    assert (Path(record.directory) / "backup_label").read_text() == "the server's own"
    assert not (Path(record.directory) / REPLACED).exists()


def test_what_cannot_be_finished_is_told_and_stays(record: ExchangeRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keep(record)
    (Path(record.directory) / STAGED / "global" / "pg_control").unlink()
    _, told = left(record, monkeypatch)
    assert "is not finished" in told[0]
    assert path.exists()
    path.write_text("{}")
    assert list(left_exchanges()) == []
