"""What a person decides by: why a candidate is faster, what it costs, the cheaper one, and the ways to go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from live_search_example import BETTER, WORSE, search
from pgdyno.errors import UsageError
from pgdyno.model.results.live import LiveCandidate, LiveSearch, LiveSecond
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.verdict import Word
from pgdyno.report.drawing.html import render as render_html
from pgdyno.report.sections import TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.store.codec import result_from_json
from pgdyno.studies.live.candidates import GUARDED, MEASURED, VETOED, cheaper_neighbour
from pgdyno.studies.live.options import LiveOptions, earlier_study, options_of
from pgdyno.studies.live.rationale import UNEXPLAINED, rationale, reasons
from pgdyno.studies.live.words import search_judgement
from pgdyno.studies.reports import compose
from pgdyno.studies.winner import offered_by
from simulated_live_world import WATCHED
from study_example import make_study

GB, MB = 1 << 30, 1 << 20
FLIP = PlanChange("-22", ("Seq Scan on t",), ("Index Scan using i on t",), "changed",
                  ("Seq Scan on t became Index Scan using i on t",))  # fmt: skip


def second(name, a, b):
    return LiveSecond(name=name, a=a, b=b)


def candidate(number, ratio, *, memory=GB, cpu=1.0, error=0.04, **more):
    return LiveCandidate(
        number=number, settings={"work_mem": f"{number}MB"}, origin="model", fate=MEASURED, pairs=2, ratio=ratio,
        error=error, cpu=cpu, memory_bytes=memory, **more,
    )  # fmt: skip


def study(found, name="s"):
    said = search_judgement(found)
    result = replace(WATCHED, search=found, title=said.title, word=said.word)
    return replace(make_study(StudyKind.LIVE), id=name, state=StudyState.COMPLETE, result=result)


@pytest.mark.requirement("R-TUN-10")
def test_a_difference_is_explained_by_plans_and_counters_of_both_arms_and_never_by_a_score():
    used = [second("temp_bytes", 12.0 * MB, 1.0 * MB), second("cpu_ms", 400.0, 300.0), second("wal_bytes", 100.0, 99.0),
            second("blocks_read", 900.0, 100.0), second("device_requests", 10.0, 30.0),
            second("active_ms", 900.0, 300.0)]  # fmt: skip
    assert reasons(used, [FLIP, replace(FLIP, statement="7", word="same")]) == (
        "Statement -22 has another plan: Seq Scan on t became Index Scan using i on t",
        "Sorts and hashes spill less: 12 MB of temporary files for a second of work became 1 MB",
        "Server CPU fell: 400 became 300 ms for a second of work",
        "Fewer blocks were missing from shared buffers: 900 became 100 for a second of work, from disk or the page "
        "cache",
        "The host's disks had more to do, by whomever: 10 became 30 requests for a second of work",
    )
    assert reasons([second("temp_bytes", 90.0, 0.0), second("cpu_ms", 400.0, 390.0)]) == (UNEXPLAINED,)
    assert reasons([second("wal_bytes", 0.0, 6.0), replace(used[1], in_each_pair=False)]) == (UNEXPLAINED,)


@pytest.mark.requirement("R-TUN-10")
def test_what_is_offered_says_on_which_statements_and_counters_it_rests():
    told = rationale(replace(BETTER, second=(second("temp_bytes", 12.0 * MB, 1.0 * MB),)))
    assert sum(one.startswith("Statement ") for one in told) == 3
    assert "spill less" in told[-1]
    doubtful = replace(second("cpu_ms", 400.0, 300.0), verdict=replace(BETTER.verdict, word=Word.NOT_RESOLVED))
    assert rationale(replace(BETTER, second=(doubtful,)))[-1] == UNEXPLAINED, "the page says beside it: not resolved"
    found = search(finals=(BETTER,), chosen=0)
    html = render_html(compose(StudyRecord(study(found), [])))
    assert "On what does the difference rest?" in html
    assert rationale(replace(BETTER, pairs=())) == ()


@pytest.mark.requirement("R-TUN-21")
def test_the_cheaper_neighbour_is_not_clearly_slower_and_costs_more_of_nothing():
    best = candidate(1, 0.80, memory=2 * GB)
    near, worse = candidate(2, 0.83, memory=GB), candidate(3, 0.95, memory=MB)
    dear = candidate(4, 0.81, memory=GB, cpu=1.5)
    frugal = candidate(5, 0.82, memory=2 * GB, cpu=0.5)
    assert cheaper_neighbour(best, [best, near, worse, dear]) == near
    assert cheaper_neighbour(best, [best, worse, dear]) is None
    assert cheaper_neighbour(best, [best, near, frugal]) == frugal, "less CPU is cheaper, too"
    assert cheaper_neighbour(candidate(6, None, error=None), [best]) is None
    stopped = [replace(near, fate=fate) for fate in (VETOED, GUARDED)]
    assert cheaper_neighbour(best, [best, *stopped]) is None, "what was stopped is no alternative"
    html = render_html(compose(StudyRecord(study(search(candidates=(best, near))), [])))
    assert "candidate 2: 0.83 of the time, not 0.8, 1 GB less memory" in html


@pytest.mark.requirement("R-TUN-07", "R-TUN-15")
def test_every_candidate_is_kept_with_settings_figures_memory_cpu_reads_of_both_kinds_plans_and_reasons():
    one = candidate(1, 0.8, reads=0.4, device=1.7, plans=(FLIP,), reasons=("Sorts and hashes spill less",))
    kept = study(search(candidates=(one,))).result
    found = result_from_json(StudyKind.LIVE, plain(kept))
    assert found == kept
    (read,) = found.search.candidates
    assert (read.reads, read.device, read.cpu, read.memory_bytes, read.plans) == (0.4, 1.7, 1.0, GB, (FLIP,))
    page = compose(StudyRecord(study(search(candidates=(one,))), []))
    (candidates,) = (part for part in page.sections if part.id == "candidates")
    tables = [part.table for part in candidates.blocks if isinstance(part, TableBlock)]
    table = next(one for one in tables if "memory at worst" in one.columns)
    shown = dict(zip(table.columns, table.rows[0], strict=True))
    figures = ("B / A", "server CPU B / A", "blocks read B / A", "disk requests B / A", "memory at worst")
    assert [shown[name] for name in figures] == ["0.8", "1", "0.4", "1.7", "1 GB"]
    html = render_html(page)
    for words in ("from disk or the page cache", "Sorts and hashes spill"):
        assert words in html


@pytest.mark.requirement("R-TUN-13")
def test_what_was_found_can_be_kept_or_its_conservative_neighbour_or_looked_for_again():
    fast = replace(BETTER, memory_bytes=2 * GB)
    lean = replace(BETTER, b={"work_mem": "8MB"}, memory_bytes=GB)
    leaner_and_worse = replace(WORSE, b={"work_mem": "1MB"}, memory_bytes=MB)
    found = study(search(finals=(fast, lean, leaner_and_worse), chosen=0))
    assert offered_by(found).settings == fast.b
    assert offered_by(found, conservative=True).settings == lean.b
    alone = study(search(finals=(fast,), chosen=0))
    assert offered_by(alone, conservative=True).settings == fast.b
    with pytest.raises(UsageError, match="no confirmed winner"):
        offered_by(study(search(finals=(leaner_and_worse,))), conservative=True)
    html = render_html(compose(StudyRecord(found, [])))
    for words in ("pgdyno apply --study", "pgdyno apply --conservative", "work_mem = 8MB", "pgdyno live --again"):
        assert words in html


class _Store:
    def __init__(self, *studies):
        self._studies = studies

    def studies(self):
        return self._studies

    def study(self, name):
        return next(one for one in self._studies if one.id == name)


@pytest.mark.requirement("R-TUN-13")
def test_a_study_is_begun_again_with_its_options_and_another_seed():
    begun = LiveOptions(reference_s=600.0, budget_s=7200.0, seed=3, not_during=("18:00-20:00",), wash_s=120.0)
    kept = {"live": {"reference_s": 600.0, "budget_s": 7200.0, "seed": 3, "not_during": ["18:00-20:00"],
                     "wash_s": 120.0, "guards": begun.guards.to_json(), "candidates": 20,
                     "design": {"smallest_effect": 0.05}}}  # fmt: skip
    watch, searched = replace(study(search()), options={"live": {"watch_only": True}}), study(search(), "x")
    searched = replace(searched, options=kept)
    assert earlier_study(_Store(watch, searched), "last").id == "x"
    again = options_of(searched).anew(8)
    assert (again.seed, again.reference_s, again.not_during, again.wash_s) == (8, 600.0, ("18:00-20:00",), None)
    assert again.design.smallest_effect == 0.05
    for name in ("last", watch.id):
        with pytest.raises(UsageError, match="not a live study that compared or searched"):
            earlier_study(_Store(watch), name)


def test_a_search_of_an_earlier_version_has_no_conservative_choice_but_its_winner():
    found = LiveSearch(knobs=("work_mem",), finals=(BETTER, BETTER), chosen=1)
    assert found.conservative == found.finals[1]
