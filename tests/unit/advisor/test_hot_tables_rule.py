"""Tables that dominate the I/O: found by three measures, moved one at a time, with DDL that quotes every name."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from advisor_case import GB, finding_of, make_case
from pgdyno.advisor.rules.hot_tables import tablespace_ddl, tablespace_name
from pgdyno.model.evidence import TableActivity
from pgdyno.model.finding import Answer, ChangeKind, ProofState, Severity
from pgdyno.outside.quoting import identifier, literal
from storage_case import disk, iostat_rows, lvm_host, simple_host

RULE = "hot-tables"


def table(name: str, read_share: float, **fields: object) -> TableActivity:
    values: dict[str, object] = {
        "schema": "public",
        "name": name,
        "database": "tpcc",
        "bytes": 12 * GB,
        "index_bytes": 2 * GB,
        "io_share": read_share,
        "read_share": read_share,
        "indexes": {f"{name}_pkey": 0.1},
    }
    return TableActivity(**{**values, **fields})


TABLES = (table("stock", 0.643), table("order_line", 0.2), table("customer", 0.157))


@pytest.mark.requirement("R-STO-06", "R-STO-08")
def test_the_table_with_most_of_the_reads_is_moved_alone():
    tables = (*TABLES[1:], TABLES[0])
    finding = finding_of(RULE, make_case(lvm_host(), tables=tables))
    assert (finding.answer, finding.state) == (Answer.FINDING, ProofState.NEEDS_TEST)
    ddl = [change for change in finding.changes if change.kind is ChangeKind.DDL]
    assert len(ddl) == 1
    assert "64.3 %" in finding.evidence[0]
    assert not any("order_line" in command for command in ddl[0].commands)


@pytest.mark.requirement("R-STO-08")
def test_the_next_table_waits_until_the_first_was_measured():
    tables = (table("stock", 0.6), table("order_line", 0.4, growth_bytes=5 * GB))
    finding = finding_of(RULE, make_case(lvm_host(), tables=tables))
    assert "public.stock" in finding.proposed
    assert finding.alternatives == ("Next, and only after this step was measured: public.order_line.",)


@pytest.mark.requirement("R-STO-06")
def test_growth_alone_can_dominate():
    tables = (table("orders", 0.3, growth_bytes=9 * GB), table("items", 0.4, growth_bytes=0), table("c", 0.3))
    assert "public.orders" in finding_of(RULE, make_case(lvm_host(), tables=tables)).proposed


@pytest.mark.requirement("R-STO-07")
def test_the_ddl_moves_indexes_too_and_warns_of_lock_and_size():
    finding = finding_of(RULE, make_case(lvm_host(), tables=TABLES))
    ddl = next(change for change in finding.changes if change.kind is ChangeKind.DDL)
    assert ddl.commands == (
        "CREATE TABLESPACE \"stock_ts\" LOCATION '/pg_stock/data';",
        'ALTER TABLE "public"."stock" SET TABLESPACE "stock_ts";',
        'ALTER INDEX "public"."stock_pkey" SET TABLESPACE "stock_ts";',
    )
    assert ddl.undo[-1] == 'DROP TABLESPACE "stock_ts";'
    assert ddl.undo[0].endswith('SET TABLESPACE "pg_default";')
    warning = next(sentence for sentence in finding.evidence if "ACCESS EXCLUSIVE" in sentence)
    assert "14GB" in warning.replace(" ", "")
    assert any("wal_level = replica" in sentence for sentence in finding.evidence)


@pytest.mark.requirement("R-STO-09", "CON-30")
def test_the_mount_is_a_volume_striped_over_the_unused_disks():
    spare = [disk("sdx"), disk("sdy"), disk("sdz")]
    host = simple_host(disk("sda"), devices=(disk("sda"), *spare))
    finding = finding_of(RULE, make_case(host, tables=TABLES))
    volume = next(change for change in finding.changes if change.kind is ChangeKind.MANUAL)
    assert "vgcreate stock_ts_vg /dev/sdx /dev/sdy /dev/sdz" in volume.commands
    assert any("lvcreate -i 3 " in command for command in volume.commands)
    assert [resolution.id for resolution in finding.resolutions] == ["CON-30"]


def test_without_unused_disks_the_stripes_are_those_of_the_data_volume():
    finding = finding_of(RULE, make_case(lvm_host(), tables=TABLES))
    volume = next(change for change in finding.changes if change.kind is ChangeKind.MANUAL)
    assert any("lvcreate -i 4 " in command for command in volume.commands)
    assert "DISK1" in volume.commands[0]


def test_even_shares_are_in_order():
    tables = tuple(table(name, 0.25) for name in "abcd")
    assert finding_of(RULE, make_case(lvm_host(), tables=tables)).answer is Answer.OK


def test_a_table_that_was_moved_is_in_order():
    tables = (table("stock", 0.64, tablespace="stock_ts"), table("c", 0.36))
    finding = finding_of(RULE, make_case(lvm_host(), tables=tables))
    assert finding.answer is Answer.OK
    assert "stock_ts" in finding.reason


def test_no_window_is_unknown_and_no_table_is_in_order():
    assert finding_of(RULE, make_case(lvm_host())).answer is Answer.UNKNOWN
    assert finding_of(RULE, make_case(lvm_host(), tables=())).answer is Answer.OK


def test_devices_that_do_not_queue_make_it_a_note():
    quiet = tuple(row for row in iostat_rows("before") if "logs" in row.device)
    assert finding_of(RULE, make_case(lvm_host(), tables=TABLES, devices=quiet)).severity is Severity.NOTE
    queueing = finding_of(RULE, make_case(lvm_host(), tables=TABLES, devices=iostat_rows("before")))
    assert queueing.severity is Severity.ADVICE
    assert any("queueing" in sentence for sentence in queueing.evidence)


@pytest.mark.requirement("R-STO-12")
def test_the_effect_is_that_of_the_rows_of_the_guide():
    finding = finding_of(RULE, make_case(lvm_host(), tables=TABLES))
    assert finding.effects[0].low == 0.034
    assert "11.35 ms" in finding.effects[1].text
    assert "7.06 ms" in finding.effects[1].text


def test_a_small_table_and_small_growth_are_no_more_than_a_note():
    small = (table("a", 0.9, bytes=8 << 20, index_bytes=0), table("b", 0.1))
    assert finding_of(RULE, make_case(lvm_host(), tables=small)).severity is Severity.NOTE
    still = tuple(table(name, 0.25, growth_bytes=8192 if name == "a" else 0) for name in "abcd")
    assert finding_of(RULE, make_case(lvm_host(), tables=still)).answer is Answer.OK


def test_names_that_need_quotes_get_them():
    odd = table('Drop"; --', 0.9, schema="My Schema", indexes={"ix'1": 0.2})
    change = tablespace_ddl(odd, tablespace_name(odd), "/it's here")
    assert change.commands[1] == 'ALTER TABLE "My Schema"."Drop""; --" SET TABLESPACE "drop_ts";'
    assert change.commands[0].endswith("LOCATION '/it''s here';")


@given(st.text(st.characters(blacklist_characters="\x00", blacklist_categories=("Cs",)), max_size=80))
def test_quoting_can_be_undone(text):
    quoted = identifier(text)
    assert quoted[1:-1].replace('""', '"') == text
    written = literal(text).strip()
    inner = written.removeprefix("E")[1:-1].replace("''", "'")
    assert (inner.replace("\\\\", "\\") if written.startswith("E") else inner) == text


@example("PG")  # PostgreSQL keeps names that begin with pg_ for itself
@example("pg_pg_PG")
@given(st.text(max_size=80))
def test_tablespace_names_are_allowed_names(text):
    name = tablespace_name(table(text, 0.9))
    assert len(name) <= 63
    assert not name.startswith("pg_")
    assert name.replace("_", "a").isalnum()
