"""The expected outage: what was measured on this server comes before an estimate, and both are told in the end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from live_search_example import BETTER
from pgdyno.model.configuration import BASELINE
from pgdyno.model.facts import Unknown
from pgdyno.model.shapes import plain
from pgdyno.model.trial import OUTAGE, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.server.outage import Outage
from pgdyno.studies.session import outages
from pgdyno.studies.session.outages import LATEST, expected_outage, outage_record, outage_sentence
from simulated_laboratory import simulated_study
from simulated_live_world import WATCHED

ESTIMATE = Outage(30.0, "at most", "an estimate")
TARGET = SimpleNamespace(name="simulated", postgres=None)


def told_of(expected, found):
    return plain(outage_record(expected, found))


def trials(*seconds):
    spec = TrialSpec(BASELINE, Role.ARM, "A", 1, 0)
    return [
        Trial(
            n, "s1", spec, TrialState.COMPLETE, Outcome(TrialState.COMPLETE, counters={} if s is None else {OUTAGE: s})
        )
        for n, s in enumerate(seconds, start=1)
    ]


class KeptStudies:
    def __init__(self, **kept):
        self.kept = kept

    def studies(self, target):
        return [replace(simulated_study(), id=id, target=of) for id, (of, _) in self.kept.items() if of == target]

    def trials(self, id):
        return self.kept[id][1]


def expected(monkeypatch, store):
    monkeypatch.setattr(outages, "read_outage", lambda _: ESTIMATE)
    return expected_outage(TARGET, store)


def test_without_a_measurement_the_server_is_asked(monkeypatch):
    assert expected(monkeypatch, KeptStudies()) is ESTIMATE
    assert expected(monkeypatch, KeptStudies(s1=("another", trials(1.0)))) is ESTIMATE
    assert expected(monkeypatch, KeptStudies(s1=("simulated", trials(None, None)))) is ESTIMATE


def test_what_was_measured_on_this_server_is_preferred(monkeypatch):
    store = KeptStudies(
        new=("simulated", trials(2.0, None, 3.0)), other=("another", trials(9.0)), old=("simulated", trials(4.0))
    )
    assert str(expected(monkeypatch, store)) == (
        "about 3.0 s each (median of 3 restarts of this server, the longest 4.0 s)"
    )


def test_what_a_live_study_measured_in_its_windows_is_not_asked_for_again(monkeypatch):
    """It has no trials: its outages are in its result, of a study that was killed, too."""
    live = replace(WATCHED, switch=replace(BETTER, outages=(2.0, 6.0)))
    store = KeptStudies(live=("simulated", []), old=("simulated", trials(4.0)))
    kept = store.studies(TARGET.name)
    monkeypatch.setattr(store, "studies", lambda target: [replace(kept[0], result=live), *kept[1:]])
    assert str(expected(monkeypatch, store)) == (
        "about 4.0 s each (median of 3 restarts of this server, the longest 6.0 s)"
    )


def test_only_the_latest_restarts_count(monkeypatch):
    store = KeptStudies(new=("simulated", trials(*[8.0] * 5, *[1.0] * LATEST)), old=("simulated", trials(100.0)))
    assert expected(monkeypatch, store).seconds == 1.0
    assert f"{LATEST} restarts" in expected(monkeypatch, store).basis
    assert "longest 1.0 s" in expected(monkeypatch, store).basis


def test_in_the_end_both_are_told():
    told = told_of(ESTIMATE, trials(2.0, 3.0, None, 7.0))
    assert told["restarts"] == 3
    assert told["expected"]["seconds"] == 30.0
    assert told["measured"]["seconds"] == 3.0
    sentence = outage_sentence(ESTIMATE, trials(2.0))
    assert "about 2.0 s each" in sentence
    assert "expected was at most 30.0 s" in sentence


def test_a_study_without_restarts_has_nothing_to_tell():
    assert told_of(None, trials(None)) == {"expected": None, "measured": None, "restarts": 0}
    assert outage_sentence(ESTIMATE, trials(None)) is None
    assert "expected" not in outage_sentence(None, trials(1.0))
    assert told_of(Outage(Unknown("no rate"), "unknown", "no rate"), [])["expected"]["seconds"] is None
