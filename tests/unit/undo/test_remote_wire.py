"""The protocol with the agent: what is sent is what arrives, errors as the same class with the same words."""

from __future__ import annotations

import inspect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_from_params import make_facts
from pgdyno import errors
from pgdyno.errors import ApplyError, EnvironmentUnsuitable, PgdynoError, RollbackError
from pgdyno.linux.host import unknown_host
from pgdyno.linux.host_texts import DistantReading, HostTexts
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.shapes import plain, shaped
from pgdyno.remote import wire
from pgdyno.server.snapshot import SettingDifference, SettingState
from pgdyno.undo.applied import Applied
from pgdyno.undo.restore import Restored

TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, PgdynoError)]
STATE = SettingState("work_mem", "4096", "4096", "kB", "integer", "user", "Memory", "default", None, None, False)


def over(value: object) -> wire.Json:
    """Send a value over the wire."""
    return wire.mapping(json.loads(json.dumps(plain(value))))


@pytest.mark.parametrize("kind", TREE)
@given(message=st.text(min_size=1), detail=st.none() | st.text(), hint=st.none() | st.text())
def test_an_error_arrives_as_it_was_raised(
    kind: type[PgdynoError], message: str, detail: str | None, hint: str | None
) -> None:
    sent = wire.to_line(wire.error_to_json(kind(message, detail=detail, hint=hint)))
    assert sent.count(b"\n") == 1
    found = wire.error_from_json(wire.from_line(sent))
    assert type(found) is kind
    assert (found.message, found.detail, found.hint) == (message, detail, hint)


@pytest.mark.parametrize("name", ["SystemExit", "IntEnum", "ExitCode", "annotations", "NoSuchError"])
def test_a_class_that_is_no_error_of_ours_is_not_raised(name: str) -> None:
    found = wire.error_from_json({"class": name, "message": "x", "detail": None, "hint": None})
    assert type(found) is EnvironmentUnsuitable


@pytest.mark.parametrize("major", [13, 18])
def test_facts_arrive_whole(major: int) -> None:
    facts = make_facts(major)
    assert shaped(Facts, over(facts)) == facts
    hidden = Facts(unknown_host("no way to look"), facts.server, facts.settings)
    assert shaped(Facts, over(hidden)) == hidden
    assert shaped(Facts, over(hidden)).host.cores == Unknown("no way to look")


def test_what_a_session_says_arrives_whole() -> None:
    for outage_s in (None, 0.75):
        applied = Applied(True, 1.5, {"work_mem": "8192"}, "abc", outage_s)
        assert shaped(Applied, over(applied)) == applied
    differences = (SettingDifference("work_mem", STATE, None), SettingDifference("a.b", None, STATE))
    restored = Restored(("/etc/a",), differences, True, 2.5, ("a line",), ("driver 7",), not_compared="no login")
    assert shaped(Restored, over(restored)) == restored
    assert not shaped(Restored, over(restored)).is_whole


def test_a_reading_arrives_whole() -> None:
    texts = HostTexts({"stat": "cpu 1\n"}, {"diskstats": "gone"}, frozenset({"vda"}), 100, 4096)
    for reading in (DistantReading(texts, None, 0.5), DistantReading(texts, 1.25, 0.5)):
        assert wire.reading_from_json(over(reading)) == reading
    with pytest.raises(OSError, match="gone"):
        texts.text("diskstats")


@pytest.mark.parametrize("line", [b"", b"[]", b"7", b"{", b"\xff"])
def test_a_line_that_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of json, of the decoder or of ours
        wire.from_line(line)


def test_errors_keep_their_exit_code() -> None:
    for kind in (ApplyError, RollbackError):
        assert wire.error_from_json(wire.error_to_json(kind("x"))).exit_code == kind.exit_code
