"""A search on a made-up live load: what is found, confirmed and explained, and what ends it."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from facts_from_params import make_facts
from fix_postgres import NIGHT
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.space import build_space
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.verdict import Metric, Word
from pgdyno.stats.body_index import PairIndex, StatementBody
from pgdyno.stats.sequential import Design, is_final, judge
from pgdyno.stats.veto import Slower, VetoState
from pgdyno.studies.live.candidates import (
    GUARDED,
    MEASURED,
    REJECTED,
    STEP,
    VETOED,
    Reply,
    is_near,
    step_towards,
)
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.search import FEWEST, FINALISTS, MOST, LiveSearcher
from pgdyno.studies.tune.importance import search_model
from pgdyno.trial.live_cycle import LiveEnding
from simulated_live_world import World, breached

KNOBS = ("work_mem", "random_page_cost", "hash_mem_multiplier", "effective_cache_size")
FACTS = make_facts(17)
SPACE = build_space(
    load_catalogue(), FACTS, only=KNOBS, reload_only=True,
    budget=TrialBudget(warmup_s=5, measure_s=25, read_only=False, connections=20),
)  # fmt: skip
PAIR_S, SD = 60.0, 0.06
SEARCHES = 20 if NIGHT else 3
WORLD = World()


def work_mem_of(settings) -> float:
    return SPACE["work_mem"].from_text(settings["work_mem"]) if "work_mem" in settings else SPACE["work_mem"].default


def faster_with_memory(settings) -> float:
    """Each doubling of work_mem takes a tenth off, up to four of them; nothing else matters."""
    doublings = math.log2(work_mem_of(settings) / SPACE["work_mem"].default)
    return 0.9 ** max(-4.0, min(4.0, doublings))


class Server:
    """Answers comparisons by a formula and noise; `special` maps a number of a comparison to its outcome's changes."""

    def __init__(self, time_of=faster_with_memory, *, seed=1, special=None):
        self.time_of, self.noise, self.special = time_of, random.Random(seed), special or {}
        self.clock, self.rests, self.compared = 0.0, 0, []

    def now(self):
        return self.clock

    def rest(self):
        self.rests += 1

    def compare(self, a, b, design, until_s, enough=None):
        self.compared.append((a, b, design))
        true, ratios, verdict = self.time_of(b) / self.time_of(a), [], None
        special = self.special.get(len(self.compared), {})
        while self.clock + PAIR_S <= until_s and "ending" not in special:
            self.clock += PAIR_S
            ratios.append(true * math.exp(self.noise.gauss(0, SD)))
            verdict = judge([1.0] * len(ratios), ratios, metric=Metric.STATEMENT_TIME, design=design)
            if enough(ratios) if enough is not None else is_final(verdict, design):
                break
        body = StatementBody(
            WORLD.reference.calls[:0].astype(int), WORLD.reference.calls[:0], WORLD.reference.calls[:0], 0.9
        )
        outcome = LiveOutcome(
            ending=LiveEnding.DECIDED, verdict=verdict, pairs=tuple(PairIndex(math.log(r), 0.0, 1.0) for r in ratios),
            lost={}, tail=None, vetoed={}, vanished=(), breaches=(), period_s=30.0, wash_s=5.0, body=body,
            veto=VetoState.begin(WORLD.reference, 25.0),
        )  # fmt: skip
        return replace(outcome, **special)


def searcher(server, *, minutes=120, candidates=20, decide=None, seed=3):
    said = []
    found = LiveSearcher(
        duels=server, space=SPACE, facts=FACTS, connections=20, starts=(), design=Design(), seed=seed,
        candidates=candidates, pair_sd=SD, pair_s=PAIR_S, ends_at=60.0 * minutes,
        decide=decide or (lambda proposal: Reply(proposal.settings)), announce=said.append, hear=lambda: None,
    )  # fmt: skip
    return found, said


def test_a_gain_is_found_confirmed_by_fresh_pairs_and_explained():
    found, said = searcher(server := Server())
    found.run()
    settings, outcome = found.finals[found.chosen]
    assert outcome.verdict.word is Word.BETTER
    assert faster_with_memory(settings) < 0.75
    assert len(settings) <= 2
    assert min(one.pairs for one in found.tried if one.fate == MEASURED) >= FEWEST
    assert max(one.pairs for one in found.tried) <= MOST
    assert server.clock <= 120 * 60
    assert all(a == BASELINE for a, _, design in server.compared[: len(found.tried)])
    assert len(found.finals) <= FINALISTS
    confidences = {design.confidence for _, _, design in server.compared[len(found.tried) :][: len(found.finals)]}
    assert [*confidences] == [pytest.approx(1 - 0.05 / FINALISTS)]
    assert any(text.startswith("candidate 1 of 20") for text in said)
    model = search_model(SPACE.dimensions, found.history(), 0.95)
    assert model.knobs[0].knob == "work_mem", "of all knobs it matters most"
    assert model.knobs[0].span.lo > 1


def test_where_nothing_helps_the_settings_stay():
    kept = 0
    for seed in range(SEARCHES):
        found, _ = searcher(Server(lambda _settings: 1.0, seed=seed), seed=seed, candidates=12)
        found.run()
        kept += found.chosen is None
    assert kept >= SEARCHES - max(1, SEARCHES // 10)


def test_no_candidate_lies_further_than_a_step_from_what_was_known():
    known = {work_mem_of(BASELINE)}
    server = Server()

    def decide(proposal):
        if not proposal.is_final:
            value = work_mem_of(proposal.settings)
            assert any(1 / STEP <= value / one <= STEP for one in known), proposal.settings
            known.add(value)
        return Reply(proposal.settings)

    found, _ = searcher(server, decide=decide)
    found.run()
    assert max(known) > STEP * work_mem_of(BASELINE), "it went on from there"


def test_a_rejected_candidate_costs_no_pair_and_does_not_come_again():
    server, asked = Server(), []

    def decide(proposal):
        asked.append(proposal.settings)
        return Reply(None if len(asked) == 2 else proposal.settings)

    found, _ = searcher(server, decide=decide, candidates=6)
    found.run()
    assert [one.fate for one in found.tried].count(REJECTED) == 1
    assert asked[1] not in [b for _, b, _ in server.compared[: len(found.tried)]]
    assert asked.count(asked[1]) == 1


def test_what_was_edited_is_what_is_tried():
    edited = Configuration.of({"work_mem": "8MB"})
    found, _ = searcher(server := Server(), decide=lambda _proposal: Reply(edited), candidates=1)
    found.run()
    assert server.compared[0][1] == edited
    assert found.tried[0].origin == "edited by hand"


def test_what_was_edited_away_is_not_proposed_again():
    asked = []

    def decide(proposal):
        asked.append(proposal.settings)
        return Reply(Configuration.of({"work_mem": f"{4 + len(asked)}MB"}))

    found, _ = searcher(Server(), decide=decide, candidates=6)
    found.starts = ({**SPACE.default_point(), "work_mem": 16384.0},)
    found.run()
    assert asked[0] == Configuration.of({"work_mem": "16MB"})
    assert len({*asked[:6]}) == 6


def test_of_a_finalist_that_was_edited_the_edited_settings_are_told_and_kept():
    edited = Configuration.of({"work_mem": "12MB"})

    def decide(proposal):
        return Reply(edited if proposal.is_final else proposal.settings)

    found, said = searcher(server := Server(seed=5), decide=decide)
    for work_mem, ratio in (("16MB", 0.81), ("8MB", 0.9)):
        settings = Configuration.of({"work_mem": work_mem, "random_page_cost": "1.5"})
        found.pairs.append((settings, (math.log(ratio), math.log(ratio * 1.01))))
    found.candidates = 0
    found.run()
    assert server.compared[0][1] == found.finals[0][0] == edited
    (told,) = [text for text in said if text.startswith("finalist 1 of 3")]
    assert told.startswith("finalist 1 of 3 at most: work_mem = 12MB; fresh pairs"), told


def test_a_finalist_that_was_edited_away_is_not_proposed_again():
    asked = []

    def decide(proposal):
        asked.append(proposal.settings)
        return Reply(Configuration.of({"random_page_cost": f"{3.9 - len(asked) / 10:.1f}"}))

    found, _ = searcher(Server(seed=5), decide=decide)
    for work_mem, ratio in (("16MB", 0.81), ("8MB", 0.9)):
        settings = Configuration.of({"work_mem": work_mem})
        found.pairs.append((settings, (math.log(ratio), math.log(ratio * 1.01))))
    found.candidates = 0
    found.run()
    assert len(asked) > 1
    assert len({*asked}) == len(asked)


def test_each_setting_of_the_winner_is_compared_with_the_others_alone_and_told():
    winner = Configuration.of({"work_mem": "64MB", "random_page_cost": "1.5"})
    found, said = searcher(server := Server(seed=5))
    found.pairs.append((winner, (math.log(0.66), math.log(0.67))))
    found.candidates = 0
    found.run()
    assert found.finals[found.chosen][0] == winner
    assert {a: b for a, b, _ in server.compared[-2:]} == {winner.without(name): winner for name in winner}
    effects = dict(found.effects)
    assert [*effects] == [*winner]
    assert effects["work_mem"].word is Word.BETTER
    assert effects["random_page_cost"].word is not Word.BETTER
    for name, verdict in effects.items():
        assert f"with {name} against without: {verdict.sentence('with it', 'without it')}" in said


def test_a_person_may_end_the_search_and_the_best_so_far_is_confirmed():
    asked = []

    def decide(proposal):
        asked.append(proposal)
        return Reply(None, ends=True) if len(asked) == 6 else Reply(proposal.settings)

    found, _ = searcher(Server(), decide=decide)
    found.run()
    assert found.stopped == "it was stopped by hand"
    assert len(found.tried) == 5
    assert found.finals or found.notes


def test_a_vetoed_or_guarded_candidate_is_no_finalist_and_teaches_no_figure():
    server = Server(
        special={
            1: {"vetoed": {7: Slower(3.0, 2)}},
            2: {"breaches": (breached().breach,), "ending": LiveEnding.NOTHING_LEFT},
        }
    )
    found, _ = searcher(server, candidates=4)
    found.run()
    assert [one.fate for one in found.tried[:2]] == [VETOED, GUARDED]
    dead = [Configuration.of(one.settings) for one in found.tried[:2]]
    assert not {one for one, _ in found.finals} & set(dead)
    assert [one.value for one in found.history()].count(None) == 2
    assert server.rests == 1, "after a guard the server is left alone"


def test_five_guard_stops_end_the_study_and_nothing_is_confirmed():
    stop = {"breaches": (breached().breach,), "ending": LiveEnding.NOTHING_LEFT}
    found, _ = searcher(Server(special=dict.fromkeys(range(1, 30), stop)))
    found.run()
    assert (len(found.tried), found.finals, found.is_restored) == (5, [], True)
    assert "guards stopped 5 times" in found.stopped


def test_the_stop_file_ends_all_of_it():
    asked = {"ending": LiveEnding.STOPPED, "stopped": 'the stop file "x" was found', "is_asked": True}
    found, _ = searcher(Server(special={3: asked}))
    found.run()
    assert (len(found.tried), found.finals, found.is_restored) == (3, [], False)
    assert "stop file" in found.stopped


def test_with_little_time_left_there_are_few_candidates_and_still_a_finalist():
    found, _ = searcher(server := Server(), minutes=20)
    found.run()
    assert 0 < len(found.tried) <= 5
    assert server.clock <= 20 * 60
    assert found.finals


def test_one_step_is_a_factor_and_words_are_always_near():
    work_mem = SPACE["work_mem"]
    default = work_mem.default
    assert is_near(work_mem, default * STEP, default)
    assert not is_near(work_mem, default * STEP * 1.1, default)
    assert not is_near(work_mem, default, default * STEP * 1.1)
    far = work_mem.high
    assert step_towards(work_mem, far) <= default * STEP
    assert step_towards(work_mem, far) > default
    assert step_towards(work_mem, default) == default


def test_settings_that_always_came_together_are_told_apart_by_the_finalists():
    """The model may give the whole gain to the wrong one of two; what fresh pairs then say is learnt from."""
    found, _ = searcher(server := Server(seed=5))
    for work_mem, cost, ratio in (
        ("16MB", "1.2", 0.81),
        ("12MB", "1.1", 0.84),
        ("8MB", "1.3", 0.9),
        ("14MB", "1.5", 0.82),
    ):
        settings = Configuration.of({"work_mem": work_mem, "random_page_cost": cost})
        found.pairs.append((settings, (math.log(ratio), math.log(ratio * 1.01))))
    found.candidates = 0
    found.run()
    assert found.chosen is not None
    assert "work_mem" in found.finals[found.chosen][0]
    assert server.clock <= 120 * 60


@pytest.mark.requirement("R-SAF-01")
def test_the_winner_without_one_of_its_settings_is_tried_by_nobody_s_leave_but_the_person_s():
    winner = Configuration.of({"work_mem": "16MB", "random_page_cost": "1.5"})
    asked = []

    def decide(proposal):
        asked.append(proposal)
        return Reply(proposal.settings if proposal.leaves_out == "random_page_cost" else None)

    found, _ = searcher(server := Server(), decide=decide)
    found._explain(winner)
    assert [one.name for one in asked] == ["the winner without random_page_cost", "the winner without work_mem"]
    assert [dict(a) for a, _, _ in server.compared] == [{"work_mem": "16MB"}]
    assert "a person did not want it" in found.notes[0]
    asked.clear()
    found.finals.append((winner.without("work_mem"), None))
    found._explain(winner)
    assert [one.leaves_out for one in asked] == ["random_page_cost"], "what was approved before is not asked for"
