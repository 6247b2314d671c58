"""`pgdyno live --search` on a real server under a load whose response to work_mem is planted."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fix_postgres import find_build, one_build
from live_driver import short_search
from live_load import planted_load
from pgdyno.errors import ExitCode
from pgdyno.model.configuration import Configuration
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import StudyState
from pgdyno.model.verdict import Word
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.candidates import Reply
from pgdyno.studies.live.search_run import CandidatePlan
from pgdyno.studies.reports import build_report
from server_image import files_of, settings_of

pytestmark = [pytest.mark.pg, pytest.mark.slow]
CANDIDATES = 5
"""One is rejected, and four are measured (R-TUN-01)."""


@pytest.mark.timeout(1800)  # longer than its budget: at the lowest priority it takes that
@pytest.mark.requirement("R-TUN-01")
@pytest.mark.parametrize("build", one_build("debian-15"))
def test_a_planted_gain_is_searched_and_confirmed_and_the_server_is_as_it_was(
    build: str, make_sandbox: Callable[..., Sandbox], pgdyno_home: object
) -> None:
    """A server that is crippled by its work_mem; on every version at night."""
    server = make_sandbox(f"searched-{build}", bin_dir=find_build(build))
    server.start()
    folder = server.target().directory
    assert folder is not None
    before = settings_of(server), files_of(folder)
    plans: list[CandidatePlan] = []
    found: list[object] = []

    def decide(plan: CandidatePlan) -> Reply:
        plans.append(plan)
        found.append(settings_of(server) == before[0])
        if len(plans) == 3:
            raise KeyboardInterrupt
        return Reply(None if len(plans) == 1 else plan.proposal.settings)

    with planted_load(server.target().postgres, {"4MB": 1.0}, other=0.4):
        with pytest.raises(KeyboardInterrupt):
            short_search(server.target(), "work_mem", candidates=CANDIDATES, decide=decide)
        assert (settings_of(server), files_of(folder)) == before
        with Store.open(places.data_dir() / "pgdyno.db") as store:
            (study,) = store.studies()
            assert study.state is StudyState.INTERRUPTED
            kept = study.told(LiveResult)
            assert kept is not None
            assert kept.search is not None
        told = short_search(server.target(), "work_mem", candidates=CANDIDATES, decide=decide, resumed=study.id)
    assert (settings_of(server), files_of(folder)) == before
    assert [plan.proposal.number for plan in plans[:4]] == [1, 2, 3, 3], "only what was not answered is asked again"
    assert told.study == study.id
    assert all(found), "who is asked is asked in the baseline"
    assert plans[0].before == {"work_mem": "4MB"}
    search = told.search
    assert search is not None
    assert search.candidates[:2] == kept.search.candidates
    assert search.knobs == ("work_mem",)
    assert [one.fate for one in search.candidates] == ["rejected", *["measured"] * (CANDIDATES - 1)], search.stopped
    assert all(one.ratio is not None and one.ratio < 0.7 for one in search.candidates[1:])
    assert all(one.memory_bytes and one.reasons for one in search.candidates[1:])
    windows = 2 * sum(one.pairs for one in search.candidates)
    assert windows >= 6, "each pair is a trial of the candidate and one of the server as it is"
    assert search.winner is not None
    assert search.winner.verdict is not None
    assert search.winner.verdict.word is Word.BETTER
    assert told.exit_code is ExitCode.OK, told.title
    with Store.open(places.data_dir() / "pgdyno.db") as store:
        study = store.study(told.study)
        assert (study.state, study.result) == (StudyState.COMPLETE, told)
        titles = [one.title for one in build_report(store, study.id).sections]
        assert {"What is compared", "Finalists", "Candidates", "Knobs"} <= {*titles}


def test_a_colleague_s_change_in_mid_search_ends_it_with_what_was_measured_and_stays(
    sandbox18: Sandbox, pgdyno_home: object
) -> None:
    """Whenever it comes: the baseline that is read back then is another one."""
    postgres = sandbox18.target().postgres

    def colleague() -> None:
        postgres.execute("ALTER SYSTEM SET maintenance_work_mem = '99MB'")
        postgres.execute("SELECT pg_reload_conf()")

    later = threading.Timer(4.0, colleague)

    def decide(plan: CandidatePlan) -> Reply:
        if plan.proposal.number == 2:
            later.start()
        return Reply(plan.proposal.settings)

    try:
        with planted_load(postgres, {"4MB": 1.0}, other=0.6):
            told = short_search(sandbox18.target(), "work_mem", candidates=CANDIDATES, decide=decide)
        assert told.search is not None
        assert "maintenance_work_mem" in told.search.stopped
        assert told.exit_code is ExitCode.RESTORED
        assert told.search.candidates[0].fate == "measured"
        shown = {name: settings_of(sandbox18)[name].setting for name in ("maintenance_work_mem", "work_mem")}
        assert shown == {"maintenance_work_mem": str(99 << 10), "work_mem": "4096"}
        with Store.open(places.data_dir() / "pgdyno.db") as store:
            assert store.study(told.study).state is StudyState.COMPLETE
    finally:
        later.cancel()
        if later.ident is not None:
            later.join()
        postgres.execute("ALTER SYSTEM RESET maintenance_work_mem")
        postgres.execute("SELECT pg_reload_conf()")


def test_where_every_candidate_is_rejected_no_session_begins(sandbox18: Sandbox, pgdyno_home: object) -> None:
    """Rejected, or edited to what is not searched, wants a restart or cannot be: then the person is asked again."""
    edits = [
        {"shared_buffers": "200MB"}, {"random_page_cost": "2"}, {"work_mem": "1"}, {"vm.swappiness": "1"},
        {"work_mem": "4096kB"},
    ]  # fmt: skip
    said: list[str] = []
    plans: list[CandidatePlan] = []

    def decide(plan: CandidatePlan) -> Reply:
        plans.append(plan)
        return Reply(Configuration.of(edits[len(plans) - 1]) if len(plans) <= len(edits) else None)

    with planted_load(sandbox18.target().postgres, {"4MB": 1.0}):
        told = short_search(sandbox18.target(), "work_mem", candidates=2, decide=decide, announce=said.append)
    assert [plan.proposal.number for plan in plans] == [1, 1, 1, 1, 1, 1, 2]
    assert said.count("these are the values of the server as it is. Reject it to leave it out.") == 1
    assert [line for line in said if line.startswith("shared_buffers is not searched here")]
    assert [line for line in said if "work_mem" in line and "range" in line]
    assert told.search is not None
    assert (told.search.session, told.search.finals) == ("", ())
    assert told.exit_code is ExitCode.NOT_RESOLVED
    assert told.title.startswith("No candidate was measured")
    assert not list((places.state_dir() / "undo").glob("*"))
