"""The file of a batch chain: what is read, and each slip with its line, name, value and hint."""

from __future__ import annotations

import pytest

from batch_example import SMALL, chain_of
from pgdyno.errors import EnvironmentUnsuitable, ExitCode, UsageError
from pgdyno.stats.precedence import ring_of
from pgdyno.studies.batch.chain import Expects, JobWork, in_order
from pgdyno.studies.batch.file import check_files


def line_of(words: str) -> int:
    return next(number for number, line in enumerate(SMALL.splitlines(), 1) if words in line)


def test_a_chain_is_read_whole() -> None:
    jobs = chain_of().jobs
    assert list(jobs) == ["load/fetch", "load/copy", "close/sum", "close/mail"]
    copy, total, mail = jobs["load/copy"], jobs["close/sum"], jobs["close/mail"]
    assert (copy.work, copy.words, copy.after) == (JobWork.SQL, ("SELECT 1",), ("load/fetch",))
    assert (copy.time_out_s, copy.retries, copy.retry_wait_s) == (300.0, 1, 10.0)
    assert [(one.expects, one.subject, one.wanted) for one in copy.checks] == [(Expects.ROWS, "public.items", "3")]
    assert (jobs["load/fetch"].starts_s, total.starts_s) == (0.0, 3600.0), "counted from the first start"
    assert total.after == ("load/copy",), "a job of another process"
    assert mail.skip == "no mail server"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('after = ["fetch"]', 'after = ["fetchh"]', 'after = ["fetch"]', 'there is no job "fetchh"'),
        ('argv = ["true"]\n\n', 'argv = ["true"]\nafter = ["copy"]\n\n', 'argv = ["true"]', "load/copy -> load/fetch"),
        ('"5min"', '"5 fortnights"', '"5min"', 'unit "fortnights"'),
        ('"5min"', '"5"', '"5min"', 'time_out "5" is not a time with a unit'),
        ('"5min"', '"5MB"', '"5min"', 'unit "MB"'),
        ("retries = 1", "retries = 1000", "retries", "retries 1000 is not from 0 to 100"),
        ("retries = 1", "retires = 1", "retries", 'unknown key "retires"'),
        ("retries = 1", "success = []", "retries", "success is empty, so that no exit code would be one"),
        ("retries = 1", 'retries = "1"', "retries", '"retries" is text and not a whole number'),
        ("rows = 3", "rows = 3\nchecksum = '1'", 'table = "public.items"', "it must check exactly one thing"),
        ('"public.items"', '"items"', 'table = "public.items"', 'table "items" has no schema'),
        ('sql = "SELECT 1"', 'sql = "SELECT 1"\nscript = "x"', 'sql = "SELECT 1"', "it has sql and script"),
        ('sql = "SELECT 1"\n', "", 'name = "copy"', "it does not say what to run"),
        ('"2026-10-30 23:00"', '"at night"', '"2026-10-30 23:00"', 'start "at night"'),
        ('name = "sum"', 'name = "su/m"', 'name = "sum"', '"su/m" is not a name'),
        ('name = "mail"', 'name = "sum"', 'name = "mail"', '"close/sum" appears twice'),
        ("parallel = 2", "parallel = 0", "parallel", "parallel 0 is not from 1 to 256"),
        ("version = 1", "version = 2", "version", "version 2 is not 1"),
        ("version = 1", "version = true", "version", "version True is not 1"),
    ],
)
def test_a_slip_is_told_with_its_line(old: str, new: str, line: str, words: str) -> None:
    assert old in SMALL
    with pytest.raises(UsageError) as caught:
        chain_of(SMALL.replace(old, new, 1))
    at = line_of(line)
    near = range(at - 1, at + 2)  # of two keys that exclude each other either line will do
    assert words in caught.value.message
    assert any(f"night.toml: line {number}" in caught.value.message for number in near), caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_program_and_a_file_that_are_missing_are_named() -> None:
    def find(name: str) -> str:
        raise EnvironmentUnsuitable(f'program "{name}" was not found')

    with pytest.raises(UsageError, match=r'line 11: process "load": job "fetch": program "true" was not found'):
        check_files(chain_of(), "night.toml", find)
    missing = SMALL.replace('sql = "SELECT 1"', 'sql_file = "nowhere.sql"')
    with pytest.raises(UsageError, match=r'job "copy": sql_file "nowhere.sql" is not a file'):
        check_files(chain_of(missing), "night.toml", str)


def test_lines_inside_a_long_text_are_no_tables() -> None:
    text = SMALL.replace('sql = "SELECT 1"', "sql = '''\n[[process]]\nname = 1\n'''").replace("rows = 3", "rows = 3.5")
    with pytest.raises(UsageError) as caught:
        chain_of(text)
    assert f"line {line_of('rows = 3') + 3}: " in caught.value.message


def test_a_ring_is_found_and_an_order_keeps_dependencies() -> None:
    assert ring_of({"a": (), "b": ("c",), "c": ("b",)}) in (("b", "c", "b"), ("c", "b", "c"))
    assert ring_of({"a": ("b",), "b": ("c",), "c": ()}) == ()
    names = [job.key for job in in_order(chain_of())]
    assert names.index("load/fetch") < names.index("load/copy") < names.index("close/sum") < names.index("close/mail")
