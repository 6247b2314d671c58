"""What a trace lacks, in words that agree with the count."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from pgdyno.trace.schema import Lost
from pgdyno.trace.whole import cut_words, missing_words


@pytest.mark.parametrize("name", [one.name for one in fields(Lost)])
def test_one_of_something_is_one(name: str) -> None:
    for count in (1, 2):
        for said in (*missing_words(Lost(**{name: count})), *cut_words(Lost(**{name: count}))):
            assert re.match(rf"{count} (statement|record|session|line){'s' if count > 1 else ''} ", said)
