"""What pg_upgrade is told, what is refused before, and in which phases it goes. No server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.migration.mover import MigrationSide, MovePlace
from pgdyno.migration.movers.cluster_pair import ClusterPair
from pgdyno.migration.movers.pg_upgrade import PgUpgrade
from pgdyno.migration.movers.upgrade_words import (
    ClusterShape,
    analyze_words,
    initdb_words,
    require_versions,
    settings_text,
    upgrade_words,
    way_back_words,
)
from pgdyno.migration.plan import MigrationPlan, all_steps
from pgdyno.model.results.migrate import MigrationPhase as P
from pgdyno.studies.migrate.file import parse_plan
from pgdyno.studies.migrate.run import remove_dump

SHAPE = ClusterShape(
    superuser="dba", encoding="UTF8", collation="de_DE.UTF-8", type="C.UTF-8", checksums=False, segment=64 << 20
)
OLD, NEW, RUN = Path("/old"), Path("/new"), Path("/run")
PLAN = """\
version = 1
[migration]
name = "shop to 18"
source = "host=old dbname=shop"
folder = "/srv/migration"
mover = "pg_upgrade"
"""


def test_the_new_cluster_is_made_as_the_old_one_is() -> None:
    words = initdb_words("initdb", NEW, SHAPE, 18)
    assert {"--encoding=UTF8", "--lc-collate=de_DE.UTF-8", "--lc-ctype=C.UTF-8", "--username=dba", "--wal-segsize=64",
            "--auth-host=reject"} <= {*words}  # fmt: skip
    icu = initdb_words("initdb", NEW, replace(SHAPE, provider="i", locale="de"), 18)
    assert icu[-3:-1] == ["--locale-provider=icu", "--icu-locale=de"]


@pytest.mark.parametrize(
    ("checksums", "major", "said"),
    [(False, 17, None), (False, 18, "--no-data-checksums"), (True, 17, "--data-checksums"),
     (True, 18, "--data-checksums")],
)  # fmt: skip
def test_data_checksums_are_those_of_the_source_whatever_initdb_makes_by_itself(
    checksums: bool, major: int, said: str | None
) -> None:
    words = initdb_words("initdb", NEW, replace(SHAPE, checksums=checksums), major)
    assert [word for word in words if "checksums" in word] == ([] if said is None else [said])


@pytest.mark.parametrize(("mode", "word"), [("copy", None), ("link", "--link"), ("swap", "--swap")])
def test_a_mode_is_one_word_and_the_check_is_of_the_same_words(mode: str, word: str | None) -> None:
    bins, data = (Path("/15/bin"), Path("/18/bin")), (OLD, NEW)
    words = upgrade_words("pg_upgrade", bins, data, "dba", RUN, mode=mode, jobs=3)
    assert {"--old-bindir=/15/bin", "--new-bindir=/18/bin", "--old-datadir=/old", "--new-datadir=/new",
            "--jobs=3", "--socketdir=/run"} <= {*words}  # fmt: skip
    assert [one for one in words if one in ("--copy", "--link", "--swap")] == ([word] if word else [])
    assert upgrade_words("pg_upgrade", bins, data, "dba", RUN, mode=mode, jobs=3, check=True) == [*words, "--check"]


def test_18_keeps_statistics_and_only_those_that_are_missing_come_first() -> None:
    (first, second) = analyze_words("vacuumdb", "dba", RUN, 2, 18).values()
    assert first[-2:] == ["--analyze-in-stages", "--missing-stats-only"]
    assert second[-1] == "--analyze-only"
    (only,) = analyze_words("vacuumdb", "dba", RUN, 2, 17).values()
    assert only[-1] == "--analyze-in-stages"


def test_the_copies_listen_to_nobody_and_ask_no_publisher() -> None:
    text = settings_text(Path("/it's"), "pgdyno migrate x", 64)
    assert "listen_addresses = ''" in text
    assert "max_logical_replication_workers = 0" in text
    assert "archive_mode = 'off'" in text
    assert "unix_socket_directories = '/it''s'" in text


@pytest.mark.parametrize(
    ("source", "target", "mode", "words"),
    [(18, 18, "copy", "both PostgreSQL 18"), (18, 17, "copy", "older than the source's 18"),
     (15, 17, "swap", "needs pg_upgrade of PostgreSQL 18")],
)  # fmt: skip
def test_versions_that_cannot_be_are_refused(source: int, target: int, mode: str, words: str) -> None:
    with pytest.raises(EnvironmentUnsuitable, match=words) as caught:
        require_versions(source, target, {"mode": mode})
    assert caught.value.hint
    require_versions(15, 18, {"mode": mode})


class Server:
    """Answers by what a query reads."""

    def __init__(self, **rows: list[str]) -> None:
        self.rows = rows

    def in_database(self, name: str) -> Server:
        return self

    def fetch(self, query: str) -> list[dict[str, object]]:
        found = next((names for key, names in self.rows.items() if f"pg_catalog.pg_{key}" in query), [])
        return [{"name": name} for name in found]


def place_of(source: Server, target: Server, **options: str) -> SimpleNamespace:
    def side(server: Server, major: int) -> SimpleNamespace:
        return SimpleNamespace(
            server=server, postgres=server, major=major, target=SimpleNamespace(local=True, name="new", bin_dir=NEW)
        )

    def program(name: str) -> str:
        return f"/nowhere/{name}"

    return SimpleNamespace(
        source=side(source, 15), target=side(target, 18), options=options, folder=NEW, account=None, program=program
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Server(tablespace=["fast"]), "tablespaces, .*: fast"),
        (Server(prepared_xacts=["gid7"]), "prepared transactions, .*: gid7"),
        (Server(**{"class AS c": ["public.quick"]}), "unlogged tables are in no base backup: public.quick"),
        (Server(database=["shop"], extension=["plpgsql", "timetravel"]), r'timetravel \(database "shop"\)'),
    ],
)
def test_what_pg_upgrade_cannot_carry_is_refused_by_name(source: Server, words: str) -> None:
    target = Server(available_extensions=["plpgsql"])
    with pytest.raises(EnvironmentUnsuitable, match=words) as caught:
        PgUpgrade().refuse(place_of(source, target))
    assert caught.value.hint


def test_missing_programs_of_the_old_version_are_named_with_where_they_were_looked_for() -> None:
    place = place_of(Server(), Server(), old_programs="/opt/pg15/bin")
    pair = ClusterPair(replace_account(place))
    with pytest.raises(EnvironmentUnsuitable, match="programs of PostgreSQL 15 were found in /opt/pg15/bin") as caught:
        pair.require_programs()
    assert "old_programs" in str(caught.value.hint)
    with pytest.raises(EnvironmentUnsuitable, match='folder "/nowhere" has no postgres'):
        _ = pair.new_build


def replace_account(place: SimpleNamespace) -> SimpleNamespace:
    """Return the place with an account that is not root's, as a rehearsal of root's has one."""
    place.account = SimpleNamespace(uid=12345, gid=12345, name="nobody-else")
    return place


def test_root_runs_nothing_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(EnvironmentUnsuitable, match="does not run as root"):
        _ = ClusterPair(place_of(Server(), Server())).user


@dataclass
class Pair:
    """Two clusters on no disk: what is done is noted in its order."""

    begun: bool
    done: list[str] = field(default_factory=list)
    old: Path = OLD
    new: Path = NEW
    sockets: Path = RUN
    shape: ClusterShape = SHAPE
    old_build = SimpleNamespace(bin_dir=Path("/15/bin"), major=15)
    new_build = SimpleNamespace(bin_dir=Path("/18/bin"), major=18)
    place = SimpleNamespace(options={"mode": "link"}, jobs=1, tell=lambda _: None)

    def is_noted(self, name: str) -> bool:
        return self.begun

    def make_sockets(self) -> None: ...

    def note(self, name: str) -> None:
        self.done.append("note")

    def copy(self) -> bool:
        self.done.append("copy")
        return True

    def recover(self) -> bool:
        self.done.append("recover")
        return True

    def make_new(self, argv: list[str]) -> bool:
        self.done.append("initdb")
        return True

    def run(self, name: str, argv: list[str]) -> bool:
        self.done.append(name)
        assert "--link" in argv
        return True


@pytest.mark.parametrize(
    ("begun", "done"),
    [(False, ["note", "upgrade"]), (True, ["copy", "recover", "initdb", "check", "note", "upgrade"])],
)
def test_an_upgrade_that_was_killed_is_done_again_on_new_copies(begun: bool, done: list[str]) -> None:
    mover, pair = PgUpgrade(), Pair(begun)
    assert mover._upgrade(pair)
    assert pair.done == done


@pytest.mark.parametrize(
    ("options", "words"),
    [({"mode": "clone"}, "clone"), ({"afterwards": "start"}, "start"), ({"snapshot": "x"}, "snapshot"),
     ({"old_programs": "bin"}, "old_programs")],
)  # fmt: skip
def test_options_that_cannot_be_are_refused_by_name(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        PgUpgrade().check(options)


def test_files_are_copied_and_a_cluster_is_made_at_once_and_the_validation_is_last() -> None:
    plan = MigrationPlan(name="x", source="dbname=x", folder="/x")
    steps = {one.phase: one.after for one in all_steps(plan, PgUpgrade().steps({}))}
    assert steps[P.TRANSFER] == (P.ASSESS,)
    assert P.TRANSFER not in steps[P.STRUCTURES]
    assert {P.TRANSFER, P.STRUCTURES} <= {*steps[P.UPGRADE]}
    assert P.STATISTICS in steps[P.VALIDATION]


def test_the_way_back_says_when_the_old_files_are_unusable() -> None:
    assert "unusable" not in way_back_words("copy")
    for mode in ("link", "swap"):
        assert "unusable afterwards" in way_back_words(mode)
    assert all("the source is untouched" in way_back_words(mode) for mode in ("copy", "link", "swap"))


@pytest.mark.parametrize(
    ("more", "line"), [('target_database = "other"\n', 7), ('[load]\nmax_wal_size = "1GB"\n', 7)]
)  # fmt: skip
def test_what_is_said_of_a_target_that_is_not_changed_is_refused_with_its_line(more: str, line: int) -> None:
    assert parse_plan(PLAN).mover == "pg_upgrade"
    with pytest.raises(UsageError, match="does not change the target") as caught:
        parse_plan(PLAN + more, source="shop.toml")
    assert f"shop.toml: line {line}: " in caught.value.message


def test_the_upgraded_cluster_alone_stays_where_the_plan_says_so(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "log-copy.err").touch()
    (tmp_path / "link").symlink_to(tmp_path / "new")
    place = MovePlace(
        source=cast(MigrationSide, None), target=cast(MigrationSide, None), folder=tmp_path, jobs=1, tag="x",
        program=str, halt=lambda: "the stop file",
    )  # fmt: skip
    remove_dump(place, PgUpgrade().keeps({"afterwards": "keep"}))
    assert [one.name for one in tmp_path.iterdir()] == ["new"]
    remove_dump(place, PgUpgrade().keeps({}))
    assert not tmp_path.exists()
