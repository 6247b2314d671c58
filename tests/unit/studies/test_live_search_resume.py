"""A search that is killed somewhere and resumed goes the way that it went, and measures nothing twice."""

from __future__ import annotations

import itertools

import pytest

from facts_from_params import make_facts
from fix_postgres import NIGHT
from pgdyno.errors import UsageError
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.space import build_space
from pgdyno.model.results.live import LiveCandidate
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.candidates import Reply
from pgdyno.studies.live.search import LiveSearcher
from pgdyno.studies.live.search_duels import SearchDuels
from pgdyno.studies.live.search_recording import SearchRecording
from pgdyno.studies.live.world import B, StopAsked
from simulated_live_world import World, breached

FACTS = make_facts(17)
SPACE = build_space(
    load_catalogue(), FACTS, only=("work_mem", "random_page_cost"), reload_only=True,
    budget=TrialBudget(warmup_s=5, measure_s=25, read_only=False, connections=20),
)  # fmt: skip
PERIOD_S = 60.0
REFERENCE = World(seed=1).reference
KILLS = range(1, 34, 1 if NIGHT else 8)


class Killed(BaseException):
    """As SIGKILL: nothing is done after it."""


class Server(World):
    """The same load for the same configuration and place in it; the `kill_at`th period is its last."""

    def __init__(self, clock, kill_at=None, **more):
        super().__init__(seed=1, **more)
        self.clock, self.kill_at, self.arms, self.ends_at, self.waited_s = clock, kill_at, {}, 0.0, 0.0

    def count(self, seconds):
        if self.counted + 1 == self.kill_at:
            raise Killed
        self.factors = 0.7 if "work_mem" in self.arms.get(B, {}) else 1.0
        self.clock[0] += PERIOD_S
        return super().count(seconds)

    def has_room(self, seconds):
        return self.clock[0] + seconds <= self.ends_at

    def rest(self, seconds):
        self.clock[0] += seconds
        self._perhaps("rest")
        super().rest(seconds)


class Run:
    """One process: a search in `folder` that goes on from what is there."""

    def __init__(self, folder, *, kill_at=None, minutes=120, happens=None, begins=1000.0, reply=None):
        self.clock, self.said, self.asked = [begins], [], []
        self.server = Server(self.clock, kill_at, happens=happens)
        recording = SearchRecording(folder)
        recording.load()
        self.duels = SearchDuels(
            recording, REFERENCE, PERIOD_S, 7, 600.0, lambda: self.server, self.said.append, lambda: self.clock[0]
        )
        self.searcher = LiveSearcher(
            duels=self.duels, space=SPACE, facts=FACTS, connections=20, starts=(), design=Design(), seed=3,
            candidates=4, pair_sd=0.06, pair_s=self.duels.pair_s, ends_at=self.duels.begin(60.0 * minutes),
            decide=lambda one: self.duels.answer(one, reply or self.person), announce=self.said.append,
            hear=lambda: None,
        )  # fmt: skip

    def person(self, proposal):
        self.asked.append(proposal)
        self.clock[0] += 20.0
        return Reply(None if len(self.asked) == 2 and self.clock[0] < 1e5 else proposal.settings)

    def run(self):
        self.searcher.run()
        return self


def told(searcher: LiveSearcher) -> list[LiveCandidate]:
    return searcher.tried


@pytest.mark.requirement("R-SAF-12")
@pytest.mark.parametrize("kill_at", KILLS)
def test_a_search_that_was_killed_goes_on_from_what_it_heard(tmp_path, kill_at):
    """Killed in whichever period, and once more three periods later: what was whole is never measured again."""
    before, runs = [], []
    for begins, at in ((1000.0, kill_at), (1e6, 3), (2e6, None)):
        run = Run(tmp_path, kill_at=at, begins=begins)
        try:
            run.run()
        except Killed:
            assert told(run.searcher)[: len(before)] == before
            before = list(told(run.searcher))
        runs.append(run)
        if at is not None and run.server.counted + 1 < at:
            break
    last = runs[-1].searcher
    assert last.tried[: len(before)] == before
    assert last.stopped
    assert last.chosen is not None
    counted = sum(run.server.counted for run in runs)
    pairs = sum(len(outcome.pairs) for _, outcome in last.finals) + sum(one.pairs for one in last.tried)
    effects = sum(verdict.pairs for _, verdict in last.effects)
    assert counted <= 2 * (pairs + effects) + 2 * len(runs) + 8, "a half pair is lost by a kill, and no more"
    spent = sum(run.clock[0] - begins for run, begins in zip(runs, (1000.0, 1e6, 2e6), strict=False))
    assert spent <= 123 * 60, "the time in between does not count, that before the kill does"
    numbers = [(one.number, one.is_final) for one in itertools.chain(*(run.asked for run in runs))]
    assert len(numbers) == len(set(numbers)), "nobody is asked twice"


def test_a_search_that_is_run_again_whole_hears_all_of_it_and_touches_no_server(tmp_path):
    first, again = Run(tmp_path).run(), Run(tmp_path, begins=1e6).run()
    assert (again.server.applied, again.asked) == ([], [])
    for one, other in ((first.searcher, again.searcher),):
        assert one.tried == other.tried
        assert (one.chosen, one.effects, one.notes, one.stopped) == (
            other.chosen, other.effects, other.notes, other.stopped,
        )  # fmt: skip
        assert [outcome.verdict for _, outcome in one.finals] == [outcome.verdict for _, outcome in other.finals]
        assert [outcome.ending for _, outcome in one.finals] == [outcome.ending for _, outcome in other.finals]


def test_a_guard_s_stop_is_remembered_and_its_candidate_does_not_come_again(tmp_path):
    first = Run(tmp_path, kill_at=8, happens={("count", 1): breached()})
    with pytest.raises(Killed):
        first.run()
    assert first.searcher.tried[0].fate == "stopped by a guard"
    assert first.server.rests == [600.0]
    again = Run(tmp_path, begins=1e6).run()
    assert again.searcher.tried[0] == first.searcher.tried[0]
    assert again.server.rests == []


def test_the_stop_file_ends_the_search_while_the_server_rests_too(tmp_path):
    run = Run(tmp_path, happens={("count", 1): breached(), "rest": StopAsked("the stop file was found")}).run()
    assert (len(run.searcher.tried), run.searcher.is_over, run.searcher.is_restored) == (1, True, False)
    assert "stop file" in run.searcher.stopped


def test_a_search_that_would_go_another_way_is_refused(tmp_path):
    with pytest.raises(Killed):
        Run(tmp_path, kill_at=9).run()
    path = tmp_path / "search.json"
    path.write_text(path.read_text().replace('"work_mem": "', '"work_mem": "1'))
    with pytest.raises(UsageError, match="cannot be followed"):
        Run(tmp_path).run()
    for content in ("[", "[1]", '[["what", 0, {}]]', '[["begin", 0, {"left_s": "x"}]]', "[" * 100_000):
        path.write_text(content)
        with pytest.raises(UsageError, match="damaged"):
            Run(tmp_path)
