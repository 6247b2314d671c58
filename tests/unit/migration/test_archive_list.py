"""What an archive has, by phase, and what pg_dump says while it works: texts alone."""

from __future__ import annotations

from pgdyno.migration.movers.archive_list import keys_of, parts_of, read_list
from pgdyno.migration.movers.dump_log import DumpLog
from pgdyno.model.results.migrate import MigrationPhase

HEAD = ";\n; Archive created at 2026-11-26\n;     dbname: shop\n;\n"
PRE = HEAD + "6; 2615 16385 SCHEMA - sales postgres\n201; 1259 16386 TABLE sales orders postgres\n"
DATA = HEAD + (
    "3380; 0 16386 TABLE DATA sales orders postgres\n"
    "3381; 0 16399 TABLE DATA public order lines postgres\n"
    "3390; 0 0 SEQUENCE SET sales orders_id_seq postgres\n"
    "3391; 2613 16450 BLOB METADATA - 16450 postgres\n"
    "3392; 0 0 BLOBS - BLOBS postgres\n"
    "3393; 0 0 STATISTICS DATA sales orders postgres\n"
)
POST = HEAD + (
    "3230; 2606 16393 CONSTRAINT sales orders orders_pkey postgres\n"
    "3231; 1259 16401 INDEX sales orders_note_idx postgres\n"
    "3232; 1259 16402 INDEX sales mv_idx postgres\n"
    "3233; 3381 16403 STATISTICS sales orders_pair postgres\n"
    "3240; 2606 16394 FK CONSTRAINT sales orders orders_customer_fkey postgres\n"
    "3241; 2620 16411 TRIGGER sales orders t postgres\n"
    "3250; 1255 16500 FUNCTION sales of_key() postgres\n"
    "3251; 1259 16501 INDEX sales by_function postgres\n"
    "3394; 0 0 STATISTICS DATA sales orders_pkey postgres\n"
)


def test_every_entry_is_restored_in_one_phase_and_once() -> None:
    before, data, after = (read_list(text) for text in (PRE, DATA, POST))
    parts = parts_of(before, data, after, of_views={16402})
    assert [one.number for one in parts.structures] == [6, 201]
    assert [one.number for one in parts.tables] == [3380, 3381]
    assert [one.number for one in parts.large_objects] == [3391, 3392]
    assert [one.number for one in parts.sequences] == [3390]
    assert [one.number for one in parts.indexes] == [3230, 3231, 3233], "before a table is analyzed"
    assert [one.number for one in parts.keys] == [3240]
    assert [one.number for one in parts.others] == [3232, 3241, 3250, 3251], "what needs a key or a view comes after it"
    assert [one.number for one in parts.statistics] == [3393, 3394]
    everything = [*parts.structures, *parts.tables, *parts.large_objects, *parts.sequences, *parts.indexes, *parts.keys,
                  *parts.others, *parts.statistics]  # fmt: skip
    assert sorted(one.number for one in everything) == sorted(one.number for one in (*before, *data, *after))


def test_an_entry_is_called_by_schema_and_name_and_listed_by_its_number() -> None:
    (first, second, *_) = read_list(DATA)
    assert (first.label, first.kind, first.oid) == ("sales.orders", "TABLE DATA", 16386)
    assert second.label == "public.order lines"
    assert first.line.startswith("3380; ")
    parts = parts_of(read_list(PRE), read_list(DATA), read_list(POST))
    assert [*keys_of(parts.of(MigrationPhase.IMPORT))] == ["sales.orders", "public.order lines"]


def test_two_entries_of_one_name_have_keys_of_their_own() -> None:
    twice = read_list("1; 0 5 TABLE DATA a b c o\n2; 0 6 TABLE DATA a b c o\n")
    assert [*keys_of(twice)] == ["a.b c", "a.b c (2)"]


def test_a_parallel_dump_tells_begins_and_ends() -> None:
    log = DumpLog(is_parallel=True)
    said = [
        'pg_dump: dumping contents of table "sales.orders"',
        'pg_dump: dumping contents of table "public.lines"',
        "pg_dump: finished item 3381 TABLE DATA lines",
        "pg_dump: reading triggers",
        "pg_dump: finished item 3380 TABLE DATA orders",
    ]
    heard = [one for line in said for one in log.read(line)]
    assert heard == [("sales.orders", True), ("public.lines", True), ("public.lines", False), ("sales.orders", False)]


def test_a_serial_dump_tells_begins_alone() -> None:
    log = DumpLog(is_parallel=False)
    said = ['pg_dump: dumping contents of table "a.b"', 'pg_dump: dumping contents of table "a.c"']
    heard = [one for line in said for one in log.read(line)]
    assert heard == [("a.b", True), ("a.b", False), ("a.c", True)]
    assert [*log.rest()] == [("a.c", False)]


def test_a_name_adds_no_entry_to_a_list() -> None:
    for end in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028"):
        (entry,) = read_list(f"3380; 0 16386 TABLE DATA sales a{end}9; 0 16399 TABLE DATA sales b postgres\n")
        assert (entry.number, entry.oid) == (3380, 16386)
