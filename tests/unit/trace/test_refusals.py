"""What is never sent again: by parse tree, by words where there is none, and without the secrets of its text."""

from __future__ import annotations

import pytest

from pgdyno.trace.fingerprints import tree, without_values
from pgdyno.trace.refusals import Barred, judge

REFUSED = (
    "ALTER SYSTEM SET work_mem = '1GB'",
    "select pg_reload_conf()",
    "select 1; select pg_catalog.pg_terminate_backend(4)",
    "do $$ begin perform pg_cancel_backend(1); end $$",
    "do $$ begin execute 'alter  system set x = 1'; end $$",
    "create function f() returns void language plpgsql as $$ begin perform pg_rotate_logfile(); end $$",
    'select U&"pg\\005freload_conf"()',
    "explain analyze select pg_reload_conf()",
    "prepare x as select pg_rotate_logfile()",
    "with x as (select pg_promote()) select * from x",
    "create user a", "drop role a", "grant a to b", "alter role a set x = 1", "reassign owned by a to b",
    "create database x", "drop database x", "alter database d rename to e",
    "create tablespace x location '/y'",
    "copy t from stdin", "copy t to program 'x'", "copy t to '/x'", "copy (select 1) to stdout",
    "select dblink_exec('a', 'b')", "create server s foreign data wrapper f", "drop server s",
    "create subscription s connection 'x' publication p", "select pg_drop_replication_slot('a')",
    "select query_to_xml('select 1', true, true, '')",
    "select net.http_post('https://x')", "select * from http_get('https://x')", "select aws_s3.query_export_to_s3('q')",
    "alter system sett x", "copy t from somewhere that does not parse",
)  # fmt: skip
SENT = (
    "select * from users where role = 'copy'", "update http set password = 'x'",
    "insert into t values ('alter system') on conflict do nothing",
    "alter table a add foreign key (x) references b",
    "alter table t rename to u", "grant select on t to b",
    "notify x", "listen x", "select pg_advisory_lock(1)", "begin", "", "selec 1", "set role x", "reset role",
    "do $$ begin update t set copy = 1; end $$",
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_changes_the_server_is_never_sent(text: str) -> None:
    assert judge(text, tree) is not None


def test_the_reasons_of_older_traces_are_known() -> None:
    """A reader tells pgdyno's own sessions, and what a cut left out, from the rest by these words."""
    assert {
        "pgdyno's own session", "writes, or may write", "its login failed in the capture", "replication",
        "fast-path function call", "its transaction began before the log",
        "fetches more of a portal, which its first execution fetches whole", "changes settings of the server",
        "ends or cancels sessions", "rotates the server's log", "role DDL", "database DDL", "tablespace DDL",
        "reaches other servers", "reads or writes files of the server",
        "changes what the server is: promotion, backup, WAL", "runs SQL from a text", "COPY",
        "COPY FROM STDIN: its data are not in the log", "COPY TO STDOUT", "COPY with a file of the server",
        "COPY with a program", "holds a NUL",
    } == {one.value for one in Barred}  # fmt: skip


@pytest.mark.parametrize("text", SENT)
def test_what_is_the_load_is_sent(text: str) -> None:
    assert judge(text, tree) is None


@pytest.mark.parametrize(
    "text",
    [
        "alter role a password 'hush'", "/* 'hush' */ create user a with encrypted password 'hush'",
        "create role a pasword 'hush'", "creat role a password 'hush'", "alter rol a password e'hush'",
        "create user mapping for a server s options (password 'hush')",
        "create subscription s connection 'password=hush' publication p", "select dblink_connect('password=hush')",
        "alter system set primary_conninfo = 'password=hush'",
    ],
)  # fmt: skip
def test_a_secret_is_not_kept(text: str) -> None:
    verdict = judge(text, tree)
    assert verdict is not None
    assert verdict.shown is not None
    assert "hush" not in verdict.shown
    assert "PASSWORD <removed>" in verdict.shown


@pytest.mark.parametrize(
    "text",
    [
        "select 'hush' -- hush", "insert into t values ('hush', E'hush', $$hush$$)", "copy t from '/hush'",
        "comment on table t is 'hush'", "do $x$ hush $x$", "create role a password 'hush'", "/* hush */ select 1",
    ],
)  # fmt: skip
def test_a_masked_text_has_no_constant(text: str) -> None:
    assert "hush" not in without_values(text)


def test_a_masked_text_keeps_its_names() -> None:
    assert without_values('select "a--b" from t where x = 5') == 'select "a--b" from t where x = $1'


def test_a_deep_or_a_huge_text_is_judged_by_its_words() -> None:
    for text in ("select " + "(" * 9000 + "pg_reload_conf()", "select 'x" + "x" * (2 << 20) + "', pg_reload_conf()"):
        assert judge(text, tree) is not None
