"""What a trace lacks, in words that agree with the count."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from pgdyno.trace.schema import Lost, TraceMeta
from pgdyno.trace.whole import cut_words, hint, missing_words

META = TraceMeta(2, "csvlog B", None, None, "2026-11-27T10:00:00+00:00", 1.0, 1, 1, 1, 0)


@pytest.mark.parametrize("name", [one.name for one in fields(Lost)])
def test_one_of_something_is_one(name: str) -> None:
    for count in (1, 2):
        for said in (*missing_words(replace(META, lost=Lost(**{name: count}))), *cut_words(Lost(**{name: count}))):
            assert re.match(rf"{count} (statement|record|session|line){'s' if count > 1 else ''} ", said)


def test_a_trace_lacks_what_a_setting_of_a_role_kept_out_of_the_log() -> None:
    assert missing_words(META) == []
    holed = replace(
        META, holes=('ALTER ROLE "a: b" SET log_min_duration_statement = 100: its sessions are not logged',)
    )
    (said,) = missing_words(holed)
    assert said.endswith(': ALTER ROLE "a: b" SET log_min_duration_statement = 100')
    assert "capture again" in hint(holed)
