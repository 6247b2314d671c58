"""Ways to bring a state back, and runs that take turns, without a server."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgdyno.errors import EnvironmentUnsuitable, ExitCode, UsageError
from pgdyno.model.verdict import Word
from pgdyno.owner.runner import LocalRunner
from pgdyno.replay.base_backup import BaseBackup
from pgdyno.replay.data_directory import DataDirectory, _blocks_listed
from pgdyno.replay.file_copy import FileCopy
from pgdyno.replay.own_command import OwnCommand
from pgdyno.replay.restore import restore_of
from pgdyno.replay.started import restarted_cache
from pgdyno.replay.tablespaces import Tablespace, lead_inside
from pgdyno.replay.template_database import TemplateDatabase
from pgdyno.server.postgres import Postgres
from pgdyno.studies.replay import rounds
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.rounds import (
    NEW,
    OLD,
    PairWord,
    ReplayArm,
    Rounds,
    outcome_of,
    said_together,
    turns,
    void_runs,
)


def test_each_way_is_named_by_its_kind() -> None:
    assert restore_of("directory:/srv/before") == DataDirectory(FileCopy(Path("/srv/before")))
    assert restore_of("template:a=b") == TemplateDatabase("a", "b")
    assert restore_of("command:/bin/back 'to the' past") == OwnCommand(("/bin/back", "to the", "past"))
    backup = restore_of("basebackup:host=keeper user=postgres password=secret")
    assert isinstance(backup, DataDirectory)
    assert isinstance(backup.source, BaseBackup)
    assert "secret" not in backup.words


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("", "is not one of"),
        ("tape:x", "is not one of"),
        ("template:", "is not one of"),
        ("template:a", "a template and the database"),
        ("template:a=a", "a template and the database"),
        ("directory:before", "not the whole path"),
        ("command:back", "the whole path of a program"),
        ("command:/bin/back 'x", "cannot be split"),
    ],
)
def test_another_word_is_refused(word: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        restore_of(word)


def test_a_program_that_others_could_change_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "back"
    program.write_text("")
    program.chmod(0o777)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(EnvironmentUnsuitable):
        OwnCommand((str(program),)).check(None, None)  # type: ignore[arg-type]  # it looks at the program alone


def test_the_sides_take_turns_at_beginning() -> None:
    assert list(turns((OLD, NEW), 3)) == [(1, OLD), (1, NEW), (2, NEW), (2, OLD), (3, OLD), (3, NEW)]
    assert list(turns((OLD,), 2)) == [(1, OLD), (2, OLD)]


def test_each_run_has_an_outcome_of_its_own() -> None:
    output = Path("/x/monday.outcome")
    assert outcome_of(output, OLD, 1, is_only=True) == output
    assert outcome_of(output, NEW, 2, is_only=False) == Path("/x/monday-new-2.outcome")


@pytest.mark.parametrize(
    ("words", "together", "code"),
    [
        ([Word.WORSE] * 2, Word.NOT_RESOLVED, ExitCode.NOT_RESOLVED),
        ([Word.WORSE] * 3, Word.WORSE, ExitCode.FINDINGS),
        ([Word.BETTER] * 4, Word.BETTER, ExitCode.OK),
        ([Word.BETTER, Word.WORSE, Word.BETTER], Word.NOT_RESOLVED, ExitCode.NOT_RESOLVED),
    ],
)
def test_a_word_needs_three_pairs_that_agree(words: list[Word], together: Word, code: ExitCode) -> None:
    pairs = tuple(PairWord(word, "") for word in words)
    word, said = said_together(pairs)
    assert word is together
    assert said.startswith("no verdict" if len(words) < 3 else together.value)
    assert Rounds((), pairs).exit_code == code


def test_a_run_that_does_not_count_says_nothing_on_whichever_side() -> None:
    fine, late = SimpleNamespace(is_valid=True), SimpleNamespace(is_valid=False)

    def said(*results: SimpleNamespace) -> str:
        return void_runs(dict(zip([(OLD, 1), (NEW, 1), (OLD, 2)], results, strict=True)))  # type: ignore[arg-type]

    assert said(fine, fine, fine) == ""
    assert said(late, fine, fine) == "not resolved: old 1 does not count"
    assert said(fine, late, late) == "not resolved: new 1, old 2 do not count"


def test_a_target_whose_wal_has_a_disk_of_its_own_keeps_it(tmp_path: Path) -> None:
    directory, elsewhere = tmp_path / "data", tmp_path / "wal"
    for path in (directory, elsewhere):
        path.mkdir()
    way = DataDirectory(SimpleNamespace(words="a copy", bytes_needed=lambda _: 1))  # type: ignore[arg-type]  # what is asked
    target = SimpleNamespace(name="new", directory=directory, remote=None, control=object())
    known = SimpleNamespace(disposable=True)
    (directory / "pg_wal").mkdir()
    way.check(target, known)  # type: ignore[arg-type]
    (directory / "pg_wal").rmdir()
    (directory / "pg_wal").symlink_to(elsewhere)
    with pytest.raises(EnvironmentUnsuitable, match='the WAL of "new" lies outside of its data directory'):
        way.check(target, known)  # type: ignore[arg-type]


def test_one_server_by_two_names_is_not_compared_with_itself() -> None:
    def arm(name: str, target: SimpleNamespace) -> ReplayArm:
        return ReplayArm(name, target, None, None)  # type: ignore[arg-type]  # it is asked since when it runs

    def server(name: str, started: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, postgres=SimpleNamespace(fetch=lambda _: [{"at": started}]))

    same = server("a", "1")
    for fine in ([same, same], [same, server("b", "2")], [same]):
        rounds.require_apart([arm(name, target) for name, target in zip((OLD, NEW), fine, strict=False)])
    with pytest.raises(UsageError, match="both sides are one server: a and b"):
        rounds.require_apart([arm(OLD, same), arm(NEW, server("b", "1"))])


def test_a_run_that_a_guard_ended_is_the_last_and_its_code_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter(["complete", "complete", "guard disk: full"])
    sent, follows = list[str](), list[object]()

    def replay(_: object, ready: object, *__: object, **more: object) -> SimpleNamespace:
        sent.append(str(ready))
        follows.append(more["follows"])
        ended = next(ends)
        code = ExitCode.OK if ended == "complete" else ExitCode.RESTORED
        return SimpleNamespace(ended=ended, exit_code=code, is_valid=ended == "complete", outcome=ended)

    monkeypatch.setattr(rounds, "prepare", lambda _, options: options.output.name)
    monkeypatch.setattr(rounds, "replay", replay)
    monkeypatch.setattr(rounds, "_pair", lambda *words: PairWord(Word.BETTER, str(words[2])))
    options = ReplayOptions(Path("t.parquet"), Path("x.outcome"))
    sides = [ReplayArm(name, SimpleNamespace(name=name), None, options) for name in (OLD, NEW)]  # type: ignore[arg-type]
    said = list[str]()
    found = rounds.run_rounds(None, sides, 3, None, announce=said.append, teller=lambda _: lambda _: None)  # type: ignore[arg-type]
    assert sent == ["x-old-1.outcome", "x-new-1.outcome", "x-new-2.outcome"]
    assert follows == [False, False, True], "between two runs of ours nobody tunes"
    assert found.exit_code is ExitCode.RESTORED
    assert [one.sentence for one in found.pairs] == ["1"]
    assert "no further run: guard disk: full" in said
    told = rounds.rounds_json(found, [{"ended": one.ended} for one in found.results])
    assert [len(told[name]) for name in ("runs", "pairs")] == [3, 1]  # type: ignore[arg-type]  # lists
    assert told["word"] == Word.NOT_RESOLVED.value


def test_a_pair_without_an_old_run_after_it_is_compared_without_equal_platforms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fine = SimpleNamespace(is_valid=True, outcome="x", fidelity=SimpleNamespace(limits=None))
    asked = list[object]()
    monkeypatch.setattr(rounds, "side_of", lambda path: path)
    monkeypatch.setattr(rounds, "Rules", lambda limits: limits)
    monkeypatch.setattr(rounds, "compare_replay", lambda *_, again, rules: asked.append(again))
    results = {(OLD, 1): fine, (NEW, 1): fine}
    for more in ({}, {(OLD, 2): fine}):
        rounds.compared_pair(Path("t"), {**results, **more}, 1, 3)  # type: ignore[arg-type, dict-item]
    assert asked == [None, Path("x")]


def test_links_of_tablespaces_lead_to_files_that_came_with_them_or_the_copy_is_refused(tmp_path: Path) -> None:
    here, staged, target = tmp_path / "data", tmp_path / "staged", SimpleNamespace(runner=LocalRunner(), os_user=None)
    (staged / "pg_tblspc").mkdir(parents=True)
    (staged / "pgdyno.tablespaces" / "fast disks").mkdir(parents=True)
    link = staged / "pg_tblspc" / "16385"
    link.symlink_to(Path("/elsewhere") / "pgdyno.tablespaces" / "fast disks")
    lead_inside(target, staged, here)  # type: ignore[arg-type]  # of a target it takes the hands alone
    assert link.readlink() == here / "pgdyno.tablespaces" / "fast disks"
    for place in ("/srv/fast disks", "/srv/pgdyno.tablespaces/other", "/srv/pgdyno.tablespaces/.."):
        link.unlink()
        link.symlink_to(place)
        with pytest.raises(EnvironmentUnsuitable, match=f'16385" leads to "{place}", out of the copy') as refused:
            lead_inside(target, staged, here)  # type: ignore[arg-type]
        words = shlex.split(str(refused.value.hint))
        assert words[-1] == f"--tablespace-mapping={place}={staged}/pgdyno.tablespaces/16385", "to be copied, as it is"
        assert str(link.readlink()) == place


def test_neither_a_map_nor_a_link_leads_a_copy_to_the_tablespaces_of_another_server(tmp_path: Path) -> None:
    staged, target = tmp_path / "staged", SimpleNamespace(runner=LocalRunner(), os_user=None)
    inside, there = staged / "pgdyno.tablespaces", tmp_path / "there"
    for folder in (staged / "pg_tblspc", inside / "7", there / "7"):
        folder.mkdir(parents=True)
    (staged / "pg_tblspc" / "7").symlink_to(inside / "7")
    (staged / "tablespace_map").write_text("7 /srv/fast\n")
    with pytest.raises(EnvironmentUnsuitable, match='tablespace_map" leads out of the copy'):
        lead_inside(target, staged, tmp_path)  # type: ignore[arg-type]  # of a target it takes the hands alone
    (staged / "tablespace_map").write_text("")
    lead_inside(target, staged, tmp_path)  # type: ignore[arg-type]  # as above
    inside.rename(tmp_path / "aside")
    inside.symlink_to(there)
    with pytest.raises(EnvironmentUnsuitable, match='7" leads to'):
        lead_inside(target, staged, tmp_path)  # type: ignore[arg-type]  # as above


def test_a_base_backup_puts_each_tablespace_into_the_folder() -> None:
    words = BaseBackup(Postgres("host=keeper")).argv(Path("/bin/pg_basebackup"), Path("/to"), [Tablespace("7", "/a=b")])
    assert words[-1] == r"--tablespace-mapping=/a\=b=/to/pgdyno.tablespaces/7"
    found = [Tablespace("7", "/srv/keeper/pgdyno.tablespaces/7"), Tablespace("8", "/fast")]
    words = BaseBackup(Postgres("host=keeper")).argv(Path("/bin/pg_basebackup"), Path("/to"), found)
    assert words[-1] == "--tablespace-mapping=/fast=/to/pgdyno.tablespaces.2/8"


class _Answers:
    """A server whose list of pages was read after a while."""

    def __init__(self, setting: str, workers: int) -> None:
        self._setting, self.workers = setting, workers

    def fetch(self, query: str) -> list[dict[str, object]]:
        if "pg_settings" in query:
            return [{"setting": self._setting}]
        self.workers -= 1
        return [{"one": 1}] if self.workers > 0 else []


def test_caches_are_cold_unless_a_list_of_pages_was_read_back() -> None:
    def said(setting: str, listed: int | None) -> str:
        return restarted_cache(_Answers(setting, 3), listed, sleep=lambda _: None)  # type: ignore[arg-type]

    assert said("on", None).startswith("cold")
    assert said("off", 5).startswith("cold")
    assert said("on", 1234) == "warmed by the autoprewarm list of the snapshot, 1,234 blocks"
    assert [_blocks_listed(head) for head in (b"<<42>>\n1,2", b"", b"<<x>>\n")] == [42, None, None]
