"""The record of a capture survives its file, and says what is wrong with one that is none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from capture_example import RUNNING
from pgdyno.errors import UsageError
from pgdyno.trace.capture_record import CaptureRecord, SourceEnd, parse_record, record_text

ENDED = replace(RUNNING, end=SourceEnd("2026-11-26T10:00:00.000000+00:00", "time", "0/2000000", {"a.b.c": 1}))


@pytest.mark.parametrize("record", [RUNNING, ENDED, replace(ENDED, sampled=0.1)])
def test_a_record_is_read_as_it_was_written(record: CaptureRecord) -> None:
    assert parse_record(record_text(record), "capture.json") == record


def test_a_sample_is_not_for_a_replay() -> None:
    assert RUNNING.is_replayable
    assert not replace(RUNNING, sampled=0.1).is_replayable


def test_what_a_later_version_of_the_program_adds_is_passed_over() -> None:
    text = json.dumps({**json.loads(record_text(RUNNING)), "weather": "rain"})
    assert parse_record(text, "capture.json") == RUNNING


def test_a_record_of_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r'"x/capture\.json" is a capture record of version 2'):
        parse_record(record_text(replace(RUNNING, version=2)), "x/capture.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", "null", '{"version": "1"}', b"\xff\x00", '{"version": true}'])
def test_what_is_no_record_is_named(text: str | bytes) -> None:
    with pytest.raises(UsageError, match=r'"x/capture\.json" is not a capture record: '):
        parse_record(text, "x/capture.json")
