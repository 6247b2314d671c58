"""Which database of a target a rehearsal may touch: its own, and while nobody else uses it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.migration.journal import RehearsalJournal
from pgdyno.migration.mover import MovePlace
from pgdyno.migration.movers import target_database
from pgdyno.model.results.migrate import MigrationPhase
from pgdyno.server.database_use import DatabaseUse
from pgdyno.studies.migrate import run


class Target:
    """A server with one database, called shop, that has this comment."""

    def __init__(self, comment: str) -> None:
        self._comment = comment

    def fetch(self, query: str, params: object = None) -> list[dict[str, object]]:
        return [{"said": self._comment}]


def place_of(comment: str = "") -> MovePlace:
    side = SimpleNamespace(server=Target(comment), database="shop", target=SimpleNamespace(name="new"))
    return cast(MovePlace, SimpleNamespace(target=side, tag="pgdyno migrate s1"))


class Use:
    """Says so often that somebody else uses the database."""

    def __init__(self, times: int) -> None:
        self._left = times

    def use(self, name: str) -> bool:
        return self.is_used(name)

    def is_used(self, name: str) -> bool:
        self._left -= 1
        return self._left >= 0


def test_two_rehearsals_do_not_drop_the_database_of_each_other() -> None:
    run.require_alone(cast(DatabaseUse, Use(0)), place_of())
    run.require_alone(cast(DatabaseUse, Use(3)), place_of(), sleep=lambda _: None)
    with pytest.raises(EnvironmentUnsuitable, match='database "shop" of new is in use by another'):
        run.require_alone(cast(DatabaseUse, Use(1000)), place_of(), sleep=lambda _: None)


def test_a_rehearsal_goes_on_where_its_own_database_is_alone(tmp_path: Path) -> None:
    journal = RehearsalJournal(tmp_path)
    other = place_of(f"{target_database.MADE}: pgdyno migrate s2")
    run.require_begun_here(journal.state, other)  # nothing was made yet
    journal.item(MigrationPhase.STRUCTURES, "database", "began", kind="database")
    run.require_begun_here(journal.state, other)  # not noted as done: it is asked for
    journal.item(MigrationPhase.STRUCTURES, "database", "ended")
    run.require_begun_here(journal.state, place_of(f"{target_database.MADE}: pgdyno migrate s1"))
    with pytest.raises(EnvironmentUnsuitable, match='no database "shop" that this rehearsal made'):
        run.require_begun_here(journal.state, other)
    journal.close()


class Kept:
    """A server with the database shop, which keeps the statements that it is given."""

    def __init__(self, **shape: object) -> None:
        self.shape = {"encoding": "UTF8", "collation": "C", "type": "C", "owner": "clerk", "said": "", **shape}
        self.done = list[str]()

    def fetch(self, query: str, params: object = None) -> list[dict[str, object]]:
        return [self.shape] if "datname = %s" in query and "aclexplode" not in query and "unnest" not in query else []

    def execute(self, query: sql.Composed) -> None:
        self.done.append(query.as_string(None))


def moved(source: Kept, version: int) -> list[str]:
    target = Kept(said=target_database.MADE)
    sides = [
        SimpleNamespace(server=one, database="shop", version=number, target=SimpleNamespace(name="x"))
        for one, number in ((source, 150_000), (target, version))
    ]
    place = cast(MovePlace, SimpleNamespace(source=sides[0], target=sides[1], tag="pgdyno migrate s1"))
    target_database.make_database(place)
    target_database.carry_settings(place)
    return target.done


def test_the_database_has_the_owner_and_the_locale_of_the_source() -> None:
    done = moved(Kept(provider="i", locale="de"), 180_000)
    assert done[-1] == 'ALTER DATABASE "shop" OWNER TO "clerk"', "whose role was made after it"
    assert any("LOCALE_PROVIDER icu ICU_LOCALE 'de'" in text for text in done)
    assert not any("LOCALE_PROVIDER" in text for text in moved(Kept(provider="c", locale=None), 180_000))
    assert not any("LOCALE_PROVIDER" in text for text in moved(Kept(provider="b", locale="C.UTF-8"), 160_000))


class Listed(Kept):
    """A server whose database has settings of its own."""

    def fetch(self, query: str, params: object = None) -> list[dict[str, object]]:
        settings = ('search_path="$user", "a, b", public', "DateStyle=ISO, DMY", 'temp_tablespaces=""')
        return [{"role": None, "setting": one} for one in settings] if "unnest" in query else super().fetch(query)


def test_a_list_of_names_stays_one_whatever_is_in_a_name() -> None:
    done = [text.partition(" SET ")[2] for text in moved(Listed(provider="c", locale=None), 180_000)]
    assert done[-3:] == [
        """"search_path" TO '$user', 'a, b', 'public'""",
        """"DateStyle" TO 'ISO, DMY'""",
        """"temp_tablespaces" TO ''""",
    ]
