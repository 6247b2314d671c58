"""What a live study keeps of itself: read back as it was, and damage is told."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from pgdyno.errors import UsageError
from pgdyno.probes.statements import StatementKey
from pgdyno.stats.body_index import PeriodCounts, ServerUse, StatementReference
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.recording import Approved, RecordedPair, RecordedReference, Recording
from pgdyno.studies.live.switchback import Switchback
from pgdyno.studies.live.windows import RestartsMade
from pgdyno.studies.live.world import BASELINE_ARM, B, StopAsked
from pgdyno.trial.live_cycle import LiveEnding
from simulated_live_world import World, breached

USE = ServerUse(1.0, None, 2.0, 3.0)
KEYS = (StatementKey(5, 6, -(2**62), True), StatementKey(5, 7, 12, False))
REFERENCE = RecordedReference(
    KEYS, StatementReference(600.0, np.array([9.0, 3.0]), np.array([1.5, 2.5]), np.array([0.1, 0.2])), 30.0, 1.7e9
)


def period(calls, **more):
    return PeriodCounts(np.array(calls, dtype=float), np.array(calls, dtype=float) * 2, **more)


def same(one, other):
    assert one.calls.tolist() == other.calls.tolist()
    assert one.time_ms.tolist() == other.time_ms.tolist()
    assert (one.new_ms, one.use, one.first is None) == (other.new_ms, other.use, other.first is None)
    if one.first is not None:
        same(one.first, other.first)


def test_a_reference_and_its_pairs_are_read_back_as_they_were(tmp_path):
    recording = Recording(tmp_path)
    recording.keep_reference(REFERENCE)
    pairs = [
        RecordedPair("A", period([1, 2]), period([3, 4], new_ms=7.5), 30.0, 5.0),
        RecordedPair(
            "B", period([5, 6], first=period([2, 3])), period([7, 8], use=ServerUse(1.0, None, 2.0, 3.0)), 60.0, 10.0
        ),
    ]
    for pair in pairs:
        recording.keep_pair(pair)
    again = Recording(tmp_path)
    found = again.reference()
    assert (found.keys, found.period_s, found.at, found.reference.seconds) == (KEYS, 30.0, 1.7e9, 600.0)
    assert found.reference.m2.tolist() == [0.1, 0.2]
    read = again.recorded(2)
    assert [(one.first, one.period_s, one.wash_s) for one in read] == [("A", 30.0, 5.0), ("B", 60.0, 10.0)]
    for one, other in zip(read, pairs, strict=True):
        same(one.a, other.a)
        same(one.b, other.b)
    again.keep_pair(pairs[0])
    assert len(Recording(tmp_path).recorded(2)) == 3
    again.forget()
    assert Recording(tmp_path).recorded(2) == []
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_damage_is_told_by_the_file_and_nothing_is_run(tmp_path):
    recording = Recording(tmp_path)
    with pytest.raises(UsageError, match=f'"{tmp_path.name}" was not finished'):
        recording.reference()
    recording.keep_reference(REFERENCE)
    recording.keep_pair(RecordedPair("A", period([1, 2]), period([3, 4]), 30.0, 5.0))
    with pytest.raises(UsageError, match=r"pair-0000.npz.* is damaged"):
        recording.recorded(3)
    whole = (tmp_path / "reference.npz").read_bytes()
    for content in (b"", whole[:100], b"x" * 50, _pickled()):
        (tmp_path / "reference.npz").write_bytes(content)
        with pytest.raises(UsageError, match="is damaged"):
            recording.reference()


def _pickled():
    import io

    content = io.BytesIO()
    np.savez(content, numbers=np.array([object()], dtype=object))
    return content.getvalue()


def test_a_study_that_goes_on_judges_the_pairs_of_before_with_its_own(tmp_path):
    world, recording = World(0.8, seed=3, pairs=2), Recording(tmp_path)
    first = Switchback(world, world.reference, 30.0, Design(), seed=3, recording=recording).run()
    assert len(first.pairs) == 2
    again = World(0.8, seed=4)
    recorded = recording.recorded(world.reference.calls.size)
    whole = Switchback(again, world.reference, 30.0, Design(), seed=3, recorded=recorded, recording=recording).run()
    assert whole.pairs[:2] == first.pairs
    assert whole.verdict.pairs == len(whole.pairs) > 2
    assert len(recording.recorded(world.reference.calls.size)) == len(whole.pairs)
    assert again.counted == 2 * (len(whole.pairs) - 2), "nothing of before was measured again"


def test_a_veto_that_was_recorded_before_the_kill_stands(tmp_path):
    slow = np.ones(200)
    slow[0] = 6.0
    world, recording = World(slow, seed=3), Recording(tmp_path)
    first = Switchback(world, world.reference, 30.0, Design(min_pairs=9), seed=3, recording=recording).run()
    assert set(first.vetoed) == {0}
    again = World(slow, seed=4)
    recorded = recording.recorded(200)
    told = Switchback(again, world.reference, 30.0, Design(min_pairs=9), seed=3, recorded=recorded).run()
    assert (set(told.vetoed), again.applied) == ({0}, [])


class Crippled(World):
    """B trips a guard whenever it is counted."""

    def count(self, seconds):
        if self.arm == B:
            raise breached()
        return super().count(seconds)


def test_what_a_guard_stopped_before_the_kill_does_not_come_again(tmp_path):
    world, recording, heard = Crippled(0.8, seed=3), Recording(tmp_path), []
    first = Switchback(
        world, world.reference, 30.0, Design(), seed=3, most_stops=1, recording=recording, hear=heard.append
    ).run()
    assert [one.breaches for one in heard] == [first.breaches], "it is in the store before anything else happens"
    stops = Recording(tmp_path).stops()
    assert stops == first.breaches
    again = World(0.8, seed=4)
    told = Switchback(again, again.reference, 30.0, Design(), seed=3, most_stops=1, stops=stops).run()
    assert (again.applied, told.breaches, told.ending) == ([], stops, LiveEnding.NOTHING_LEFT)
    more = Crippled(0.8, seed=4)
    told = Switchback(more, more.reference, 30.0, Design(), seed=3, most_stops=2, stops=stops).run()
    assert (len(told.breaches), more.applied.count(B)) == (2, 1), "of two one is left"
    (tmp_path / "stops.json").write_text("[{]")
    with pytest.raises(UsageError, match=r"stops.json.* is damaged"):
        recording.stops()
    recording.keep_reference(REFERENCE)
    assert recording.stops() == ()


class Interrupted(Crippled):
    """The way back from B does not come to its end."""

    error: BaseException

    def apply(self, arm):
        super().apply(arm)
        if arm == BASELINE_ARM:
            raise self.error


@pytest.mark.parametrize("error", [StopAsked("a person"), KeyboardInterrupt()])
def test_a_stop_is_kept_too_where_the_study_is_ended_on_the_way_back_from_it(tmp_path, error):
    world = Interrupted(0.8, seed=3)
    world.error = error
    with suppress(KeyboardInterrupt):
        Switchback(world, world.reference, 30.0, Design(), seed=3, most_stops=1, recording=Recording(tmp_path)).run()
    assert world.back == 1
    assert len(Recording(tmp_path).stops()) == 1


def test_restarts_are_kept_until_another_reference_is_and_damage_is_told(tmp_path):
    recording = Recording(tmp_path)
    assert recording.restarts() == RestartsMade()
    recording.keep_restarts(RestartsMade(3, (4.5, 5.25)))
    assert Recording(tmp_path).restarts() == RestartsMade(3, (4.5, 5.25))
    (tmp_path / "restarts.json").write_text('{"made": "many"}')
    with pytest.raises(UsageError, match=r"restarts\.json.* is damaged"):
        recording.restarts()
    recording.keep_reference(REFERENCE)
    assert recording.restarts() == RestartsMade()


def test_what_was_approved_is_kept_until_another_reference_is_and_damage_is_no_approval(tmp_path):
    recording = Recording(tmp_path)
    assert recording.approved() is None
    for approved in (Approved(6), Approved()):
        recording.keep_approved(approved)
        assert Recording(tmp_path).approved() == approved
    (tmp_path / "approved.json").write_text('{"restarts": "many"}')
    with pytest.raises(UsageError, match=r"approved\.json.* is damaged"):
        recording.approved()
    recording.keep_reference(REFERENCE)
    assert recording.approved() is None
