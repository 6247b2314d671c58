"""What of two databases differs, and which differences are no fault of a migration."""

from __future__ import annotations

import json

import pytest

from pgdyno.errors import ExitCode
from pgdyno.migration.validation.aspects import Aspect
from pgdyno.migration.validation.differences import Objects, TwoVersions, differences, no_fault, without_parts
from pgdyno.migration.validation.programs import VIEWS
from pgdyno.migration.validation.rights import OWNERS, PRIVILEGES
from pgdyno.migration.validation.surroundings import COLLATION_VERSIONS, EXTENSION_VERSIONS, SHARED
from pgdyno.model.results.migrate import ValidationFinding, ValidationResult
from pgdyno.model.shapes import plain

INDEX = Aspect(topic="index", values=("", "tablespace"), query="")
OLD_AND_NEW = TwoVersions(130_023, 180_001)
ALIKE = TwoVersions(180_001, 180_001)


def sentences(aspect: Aspect, a: Objects, b: Objects, versions: TwoVersions = ALIKE) -> list[str]:
    return [one.sentence for one in differences(aspect, a, b, versions)]


def test_an_object_of_one_side_and_a_value_that_differs_are_named_with_both_sides() -> None:
    a = {"public.gone": ("valid", "fast"), "public.same": ("valid", "fast"), "public.worse": ("valid", "fast")}
    b = {"public.more": ("valid", "fast"), "public.same": ("valid", "fast"), "public.worse": ("invalid", "slow")}
    assert sentences(INDEX, a, b) == [
        "index public.gone is missing",
        "index public.more is on the target alone",
        "index public.worse: valid expected, invalid found",
        "index public.worse: tablespace fast expected, tablespace slow found",
    ]


def test_a_value_that_one_version_does_not_have_is_not_compared() -> None:
    assert sentences(INDEX, {"i": ("valid", None)}, {"i": ("valid", "fast")}) == []


def test_views_are_the_same_text_when_16_leaves_the_table_out_and_not_when_a_word_differs() -> None:
    old = {"public.v": ("a view", 'SELECT c.n, "A b"."x y" FROM public.c', "public.c.n", "", "populated")}
    new = {"public.v": ("a view", 'SELECT n, "x y" FROM public.c', "public.c.n", "", "populated")}
    assert sentences(VIEWS, old, new, OLD_AND_NEW) == []
    assert sentences(VIEWS, old, new, ALIKE) != []
    other = {"public.v": ("a view", 'SELECT m, "x y" FROM public.c', "public.c.n", "", "populated")}
    assert len(sentences(VIEWS, old, other, OLD_AND_NEW)) == 1
    reads_others = {"public.v": (*new["public.v"][:2], "public.d.n", "", "populated")}
    assert "columns read public.c.n expected" in sentences(VIEWS, old, reads_others, OLD_AND_NEW)[0]


def test_of_long_texts_the_place_is_shown_where_they_differ() -> None:
    body = "SELECT " + " + ".join(f"column_{number}" for number in range(100))
    (found,) = differences(INDEX, {"f": (body, "")}, {"f": (body.replace("column_70", "column_71"), "")}, ALIKE)
    assert "column_70" in found.expected
    assert "column_71" in found.found
    assert max(len(found.expected), len(found.found)) < 140


@pytest.mark.parametrize(
    ("aspect", "name", "a", "b", "versions", "words"),
    [
        (SHARED[0], "monitor", None, ("login", "none", "ever"), ALIKE, "more than what was moved"),
        (SHARED[0], "app", ("login", "none", "ever"), None, ALIKE, ""),
        (EXTENSION_VERSIONS, "citext", ("1.5",), ("1.6",), OLD_AND_NEW, "brings its own"),
        (EXTENSION_VERSIONS, "citext", ("1.5",), ("1.6",), ALIKE, ""),
        (EXTENSION_VERSIONS, "citext", ("1.5",), None, OLD_AND_NEW, ""),
        (COLLATION_VERSIONS[0], '"de-x-icu"', ("153.120",), ("153.121",), ALIKE, "sort differently"),
        (PRIVILEGES, "CREATE on schema public to PUBLIC", ("granted",), None, OLD_AND_NEW, "since 15 schema public"),
        (PRIVILEGES, "CREATE on schema public to PUBLIC", ("granted",), None, ALIKE, ""),
        (PRIVILEGES, "SELECT on table public.c to app", ("granted",), None, OLD_AND_NEW, ""),
        (OWNERS, "schema public", ("postgres",), ("pg_database_owner",), OLD_AND_NEW, "since 15"),
    ],
)
def test_what_versions_and_other_users_of_a_server_make_is_no_fault(
    aspect: Aspect,
    name: str,
    a: tuple[str, ...] | None,
    b: tuple[str, ...] | None,
    versions: TwoVersions,
    words: str,
) -> None:
    (found,) = differences(aspect, {name: a} if a else {}, {name: b} if b else {}, versions)
    reason = no_fault(aspect, found, versions)
    assert words in reason
    assert bool(reason) == bool(words)


def test_of_an_object_that_is_missing_its_parts_and_rights_are_not_told_again() -> None:
    def missing(topic: str, name: str) -> ValidationFinding:
        return ValidationFinding(topic=topic, object=name, expected="there", found="missing")

    kept = [missing("table", "public.t"), missing("column", "public.u.id"), missing("owner", "table public.u")]
    parts = [
        missing("column", "public.t.id"), missing("owner", "table public.t"), missing("constraint", "k on public.t"),
        missing("privilege", "SELECT on table public.t to app"),
    ]  # fmt: skip
    assert without_parts([*kept, *parts]) == kept


@pytest.mark.parametrize(
    ("findings", "unread", "code"),
    [(0, (), ExitCode.OK), (0, ("a table",), ExitCode.NOT_RESOLVED), (1, ("a table",), ExitCode.FINDINGS)],
)
def test_the_exit_code_is_1_for_a_difference_and_3_where_something_was_not_read(
    findings: int, unread: tuple[str, ...], code: ExitCode
) -> None:
    one = ValidationFinding(topic="rows", object="t", expected="2 rows", found="1 row", rows=("(7) missing",))
    found = ValidationResult(compared={"tables": 1, "rows": 2, "index": 3}, findings=(one,) * findings, unread=unread)
    assert found.exit_code is code
    first, *others = found.lines()
    assert first.startswith("1 table with 2 rows and 3 objects compared, ")
    assert [line for line in others if "(7) missing" in line] == [one.sentence] * findings
    assert json.loads(json.dumps(plain(found)))["unread"] == list(unread)
