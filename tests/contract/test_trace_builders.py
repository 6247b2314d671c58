"""Both builders of traces are one: the same rows, facts and errors of logs that are whole, cut, damaged or made up."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fix_postgres import NIGHT
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.parquet import read_rows
from pgdyno.trace.records import CsvForm
from pgdyno.trace.refusals import Barred
from pgdyno.trace.schema import Lost, TraceMeta

LOGS = Path(__file__).parents[1] / "data" / "traces"
NAMES = ["13-A.csv", "13-B.csv", "15-A.csv", "15-B.csv", "18-A.csv", "18-B.csv", "18-pgreplay.csv"]
pytestmark = pytest.mark.usefixtures("compiled_engine")
slow = settings(
    max_examples=40 if NIGHT else 4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Built = tuple[TraceMeta, list[tuple[Any, ...]]]


def built(builder: str | None, *logs: Path, **options: Any) -> Built | tuple[str, str | None, str | None]:
    """Return a trace without the digest of its file, or the words of the error."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.parquet"
        try:
            meta = build_trace(logs, out, BuildOptions(builder=builder, **options))
        except UsageError as error:
            assert not list(Path(folder).iterdir())
            return str(error), error.detail, error.hint
        return replace(meta, digest=""), list(read_rows(out))


@pytest.mark.parametrize("name", NAMES)
def test_the_logs_of_servers(name: str) -> None:
    wanted = built("python", LOGS / name)
    assert isinstance(wanted[0], TraceMeta)
    assert wanted[0].refused.keys() <= {*Barred}
    assert built("compiled", LOGS / name) == wanted
    assert built("compiled", LOGS / name, segment=700) == wanted


def test_rotated_logs_and_a_zone(tmp_path: Path) -> None:
    records = list(CsvForm().records((LOGS / "18-B.csv").read_bytes().replace(b" UTC,", b" CET,")))
    (tmp_path / "b.csv").write_bytes(b"".join(records[:70]))
    (tmp_path / "a.csv").write_bytes(b"".join(records[70:]))
    files, zone = (tmp_path / "a.csv", tmp_path / "b.csv"), "Europe/Berlin"
    assert built("compiled", *files, log_timezone=zone) == built("python", *files, log_timezone=zone)


@pytest.mark.parametrize(
    ("name", "words"),
    [("18-B.json", "reads csvlog alone, not jsonlog"), ("18-B.csv", "as a record has another number of fields")],
)
def test_what_it_does_not_take_the_python_builder_does(tmp_path: Path, name: str, words: str) -> None:
    log = tmp_path / name
    log.write_bytes((LOGS / name).read_bytes() + (b"no,record\n" if name.endswith("csv") else b""))
    told = list[str]()
    found = built(None, log, tell=told.append)
    assert found == built("python", log)
    assert words in told[0]
    with pytest.raises(EnvironmentUnsuitable, match="cannot read this") as raised:
        built("compiled", log)
    assert words in (raised.value.detail or "")


@pytest.mark.parametrize("end", [b"", b"\n", b" \n", b',"a', b'2026-11-26 06:17:45.770 UTC,"a"', b"a\nb"])
def test_a_log_that_ends_anywhere(tmp_path: Path, end: bytes) -> None:
    log = tmp_path / "cut.csv"
    log.write_bytes((LOGS / "18-B.csv").read_bytes().removesuffix(b"\n") + end)
    assert built(None, log) == built("python", log)


@pytest.mark.parametrize("name", ["13-B.csv", "18-A.csv"])
def test_a_log_that_begins_within_a_transaction(tmp_path: Path, name: str) -> None:
    records = list(CsvForm().records((LOGS / name).read_bytes()))
    begin = next(place for place, one in enumerate(records) if b"statement: begin" in one)
    log = tmp_path / "rest.csv"
    for at in range(begin, begin + 9):
        log.write_bytes(b"".join(records[at:]))
        wanted = built("python", log, allow_truncated=True)
        assert isinstance(wanted[0], TraceMeta)
        assert (Barred.BEGUN in wanted[0].refused) is (at > begin)
        for segment in (700, 1 << 20):
            assert built("compiled", log, allow_truncated=True, segment=segment) == wanted


@slow
@given(name=st.sampled_from(NAMES), number=st.integers(0, 1 << 32))
def test_logs_that_are_cut_and_damaged(tmp_path: Path, name: str, number: int) -> None:
    chance = random.Random(number)
    data = (LOGS / name).read_bytes()
    records = list(CsvForm().records(data))
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(records))
        match chance.randrange(4):
            case 0:
                del records[at : at + chance.randrange(1, 20)]
            case 1:
                records.insert(at, chance.choice(records or [b""]))
            case 2:
                records[at] = records[at].replace(b",", b"\xff,", chance.randrange(2))
            case _:
                record = bytearray(records[at])
                record[chance.randrange(len(record))] = chance.randrange(1, 256)
                records[at] = bytes(record)
        records = records or [b""]
    data = b"".join(records)
    if chance.randrange(2):
        data = data[: chance.randrange(len(data) + 1)]
    log = tmp_path / "damaged.csv"
    log.write_bytes(data)
    options = {"segment": chance.choice([900, 5000, 1 << 20]), "allow_truncated": bool(chance.randrange(2))}
    assert built(None, log, **options) == built("python", log, **options)


TEXTS = (
    "select 1", "select $1, 'it''s' || $2", "BEGIN", "commit;", "  end ; ", "insert into t values (-1.5,2,'x''y')",
    "select 'open", "alter role a password 'secret'", "copy t from stdin", "select \"a\"\"b\" = 5 -- 'c", "", "é 'ü' 7",
    "with a as (select 5x, 7.5y,8.5.6) select", "select $q$ 5 $q$", "prepare transaction 'x'", "savepoint a; select 2",
)  # fmt: skip
VALUES = ("$1 = '5'", "$1 = 'a''b', $2 = NULL", "$1 = 'é, $2 = ''''', $2 = 'x...'", "$1 = 'cut...", "", "no values")
LABELS = ("<unnamed>", "P_1", "a/b", "fetch from a/b", "P_1/C_2")
TAGS = ("SELECT", "BIND", "PARSE", "", "PARSER")
STATES = ("23505", "42P01", "57014")


def lines_of(number: int) -> list[tuple[int, str, int, int | None, int, int]]:
    """Return lines of a few sessions, many enough that each kind comes after each."""
    chance = random.Random(number)
    letters, vx = "SXPNBTUDEFC.?" * 3 + "QR", (None, 0, 0, 1, 1, 2)
    return [
        (chance.randint(1, 3), chance.choice(letters), chance.randint(0, 3000), chance.choice(vx), chance.randint(0, 5),
         chance.randint(0, 1 << 16))
        for _ in range(chance.randint(1, 250))
    ]  # fmt: skip


def record(number: int, at_ms: int, made: tuple[int, str, int, int | None, int, int]) -> list[str]:
    """Return a record of csvlog as a server might write it, of a line that was drawn."""
    session, letter, passed, vx, text, chance = made
    pick = random.Random(chance).choice
    sql, label = TEXTS[text] if chance % 3 else pick(TEXTS), pick(LABELS)
    timed = f"duration: {passed}.{chance % 1000:03} ms"
    message = {
        "S": f"statement: {sql}", "X": f"execute {label}: {sql}", "P": f"{timed}  parse <unnamed>: {sql}",
        "N": f"{timed}  parse {label}: {sql}", "B": f"{timed}  bind {label}: {sql}", "T": f"{timed}  statement: {sql}",
        "U": f"{timed}  execute {label}: {sql}", "D": timed, "E": "an error",
        "F": f"{timed}  fastpath function call: f",
        "C": "connection authorized: user=a", "Q": "disconnection: session time: 0:00:00.001", ".": "checkpoint",
        "R": "database system was shut down at 2026-11-26 06:00:00 UTC",
        "?": f"{timed} of something else",
    }[letter]  # fmt: skip
    detail = f"Parameters: {pick(VALUES)}" if letter in "XUB" and chance % 2 else ""
    is_error = letter == "E"
    context = pick(
        [
            "",
            "f\nportal with parameters: $1 = 'a'",
            "with parameters: $1",
            "unnamed portal with parameters: $1 = 'b...'",
        ]
    )
    user = "" if letter == "R" else pick(["a", "a", "b", ""])
    minute, second, milli = at_ms // 60_000, at_ms // 1000 % 60, at_ms % 1000
    return [
        f"2026-11-26 06:{minute:02}:{second:02}.{milli:03} UTC", user, pick(["d", "d", ""]), "7",
        "[local]", f"6b07ca2c.{session:x}", str(number), pick(TAGS), "2026-11-26 06:00:00 UTC",
        "" if vx is None else f"3/{vx}", pick(["0", "0", "77"]), "ERROR" if is_error else "LOG",
        pick(STATES) if is_error else "00000", message, detail, "", "", "", context if is_error else "",
        pick([sql, sql, ""]) if is_error else "", "", "", pick(["", "psql", "pgdyno test", "x"]),
        pick(["client backend"] * 6 + ["walsender", "checkpointer"]), "", "0",
    ]  # fmt: skip


def log_of(lines: list[tuple[int, str, int, int | None, int, int]]) -> bytes:
    buffer = io.StringIO(newline="")
    write = csv.writer(buffer, lineterminator="\n").writerow
    numbers, at = dict[int, int](), 0
    for made in lines:
        # what goes on after its end is none of the compiled builder's: the next session has another number
        session = made[0] + 16 * sum(one[0] == made[0] and one[1] == "Q" for one in lines[: len(numbers)])
        numbers[session] = numbers.get(session, made[4] % 2) + 1 + made[5] % 17 // 16
        at = min(at + made[2] // 50, 3_500_000)
        write(record(numbers[session], at, (session, *made[1:])))
    return buffer.getvalue().encode()


@pytest.mark.parametrize("segment", [600, 1 << 20])
def test_a_session_that_goes_on_after_its_end(tmp_path: Path, segment: int) -> None:
    buffer = io.StringIO(newline="")
    lines = [(1, "T"), (1, "T"), (1, "Q"), (1, "S"), *[(2, "T")] * 9]
    for number, (session, letter) in enumerate(lines, 1):
        made = (session, letter, 1, 0, 0, 3)
        csv.writer(buffer, lineterminator="\n").writerow(record(number, number, made))
    log = tmp_path / "made.csv"
    log.write_text(buffer.getvalue())
    found = built("python", log, segment=segment)
    assert isinstance(found[0], TraceMeta)
    assert (found[0].statements, found[0].lost.cut_statements) == (12, 1)
    assert built(None, log, segment=segment) == found


@slow
@given(number=st.integers(0, 1 << 32), segment=st.sampled_from([600, 4000, 1 << 20] if NIGHT else [4000, 1 << 20]))
def test_any_lines_in_any_order(tmp_path: Path, number: int, segment: int) -> None:
    log = tmp_path / "made.csv"
    log.write_bytes(log_of(lines_of(number)))
    told = list[str]()
    options = {"segment": segment, "allow_truncated": True}
    found = built(None, log, tell=told.append, **options)
    assert found == built("python", log, **options)
    odd = ("as a session goes on after its end", "as a statement may lack its bound values")
    assert not told or any(words in told[0] for words in odd) or told == ["the compiled builder"]


def test_a_session_has_its_name_from_the_first_and_one_that_is_not_let_in_is_not_opened(tmp_path: Path) -> None:
    log, names = tmp_path / "a.csv", ("pgdyno", "till 7", "probe")
    with log.open("w") as file:
        for number, name in enumerate(names):
            who = [f"2026-11-26 06:17:45.77{number} UTC", "joe", "shop", "7", "[local]", f"6952f000.{number}"]
            said = f"connection authorized: user=joe database=shop application_name={name} SSL enabled (protocol=x)"
            rows = [["1", "authentication", "LOG", "00000", said, ""], ["2", "SELECT", "LOG", "00000",
                    "duration: 1.000 ms  statement: select 1", name]]  # fmt: skip
            if name == "probe":
                rows[1] = ["2", "startup", "FATAL", "3D000", 'database "shop" does not exist', ""]
            for line, tag, severity, state, message, application in rows:
                record = [*who, line, tag, who[0], "1/1", "0", severity, state, message, *[""] * 8, application,
                          "client backend", "", "0"]  # fmt: skip
                csv.writer(file, lineterminator="\n").writerow(record)
    for builder in ("python", "compiled"):
        out = tmp_path / f"{builder}.parquet"
        meta = build_trace([log], out, BuildOptions(builder=builder))
        columns = ["session", "kind", "application", "refused", "sqlstate"]
        opened = [row[2:] for row in read_rows(out, columns) if row[1] == "connect"]
        assert opened == [("pgdyno", Barred.OURS, None), ("till 7", None, None), ("probe", Barred.LOGIN, "3D000")]
        assert (meta.errors, meta.lost) == (0, Lost())
