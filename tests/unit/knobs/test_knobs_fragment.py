"""Fragments of postgresql.conf: plain settings are read as the server reads them, anything else is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.knobs.fragment import parse_conf
from pgdyno.model.configuration import Configuration

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,20}(\.[a-z][a-z0-9_]{0,5})?", fullmatch=True).filter(
    lambda name: name not in ("include", "include_dir", "include_if_exists")
)
VALUES = st.text(st.characters(exclude_characters="\n\r\\", exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=20)


def test_reads_settings_comments_and_quotes() -> None:
    text = (
        "# a fragment\n\n"
        "shared_buffers = 4GB   # a quarter\n"
        "work_mem='64 MB'\n"
        "  jit off\n"
        "random_page_cost\t1.1\r\n"
        "my.note = 'it''s # not a comment'\n"
        "wal_buffers = -1\n"
        "empty = ''"
    )
    assert parse_conf(text) == {
        "shared_buffers": "4GB",
        "work_mem": "64 MB",
        "jit": "off",
        "random_page_cost": "1.1",
        "my.note": "it's # not a comment",
        "wal_buffers": "-1",
        "empty": "",
    }


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("include 'other.conf'", "include"),
        ("include_dir = conf.d", "include_dir"),
        ("INCLUDE_IF_EXISTS 'x'", "INCLUDE_IF_EXISTS"),
        ("work_mem = 'unfinished", "not a setting"),
        ("work_mem =", "not a setting"),
        ("work_mem", "not a setting"),
        ("work_mem = 4 MB", "not a setting"),
        ("work_mem = 4MB extra", "not a setting"),
        ("= 4MB", "not a setting"),
        ("ALTER SYSTEM SET work_mem = '4MB';", "not a setting"),
        (r"work_mem = 'a\'b'", "not a setting"),
        ("jit = on\nJIT = off", "set twice"),
    ],
)
def test_refuses_what_it_does_not_understand(line: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_conf(f"# first\n{line}\n", source="a.conf")
    assert caught.value.message.startswith(f"a.conf:{2 + line.count(chr(10))}: ")
    assert part in caught.value.message


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_a_fragment_of_a_configuration_reads_back(settings: dict[str, str]) -> None:
    assert parse_conf(Configuration.of(settings).fragment()) == dict(Configuration.of(settings))


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert all(isinstance(value, str) for value in parse_conf(text).values())
