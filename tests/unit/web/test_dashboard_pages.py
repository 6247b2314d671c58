"""The pages that the dashboard has beside its first: a target, two studies, a run; and a study that goes on."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from jinja2 import Environment, PackageLoader

import study_example as example
from dashboard_asking import CLOSED, OPEN, ask
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.live import Live, LivePoint
from pgdyno.model.study import USERS_LOAD, StudyKind, StudyState
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.web import pages
from pgdyno.web.alerts import _silence, alerts_of
from pgdyno.web.app import make_app
from pgdyno.web.cards import StudyCard

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def test_the_templates_of_running_studies_are_read_when_one_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read, get_source = [], PackageLoader.get_source

    def noting(self: PackageLoader, environment: Environment, template: str) -> object:
        read.append(template)
        return get_source(self, environment, template)

    monkeypatch.setattr(PackageLoader, "get_source", noting)
    pages._environment.cache_clear()
    app = make_app(store, OPEN)
    assert ask(app, "/").status == 200
    assert sorted(read) == ["frame.html.j2", "overview.html.j2", "parts.html.j2"]
    study = example.add_tune(store)
    now = time.time()
    LiveBoard(store).show(Live(study, now, now, "here", 1))
    assert f'data-study="{study}"' in ask(make_app(store, OPEN), "/").body
    assert read[3:] == ["cards.html.j2"]


@pytest.mark.parametrize("workload", [USERS_LOAD, "tpcb"])
def test_a_study_of_the_users_own_load_has_no_empty_strips_of_a_load_that_nobody_drives(
    store: Store, workload: str
) -> None:
    made = example.make_study()
    study, now = replace(made, workload=replace(made.workload, name=workload)), time.time()
    store.add_study(study)
    LiveBoard(store).show(Live(study.id, now, now, "here", 1, phase="watching", place="settings, every minute"))
    body = ask(make_app(store, OPEN), "/").body
    assert "settings, every minute" in body
    assert ('data-part="strips"' in body) is (workload != USERS_LOAD)


def test_a_target_has_its_facts_studies_and_changes_with_their_undo(store: Store) -> None:
    study = store.study(example.add_tune(store))
    change = ChangeRecord(
        1_790_000_000.0, HOSTILE, ChangeAction.APPLY, study.target, "e", "s-1", "jit", "jit", "on", "off"
    )
    back = replace(change, session="s-2")
    store.add_changes([change, back, replace(back, action=ChangeAction.ROLLBACK)])
    store.add_changes([replace(change, target="another", session="elsewhere-3")])
    app = make_app(store, OPEN)
    assert f'href="/target?name={quote(study.target)}"' in ask(app, "/").body
    answer = ask(app, f"/target?name={quote(study.target)}")
    assert answer.status == 200
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    for words in (study.id, "pgdyno rollback s-1", "pgdyno advise", "block size"):
        assert words in answer.body
    assert "pgdyno rollback s-2" not in answer.body, "it was taken back"
    assert "elsewhere-3" not in answer.body
    assert HOSTILE not in answer.body


def test_two_studies_stand_side_by_side_without_a_verdict_between_them(store: Store) -> None:
    tune, keep = example.add_tune(store), example.add_ab(store)
    answer = ask(make_app(store, OPEN), f"/beside?first={tune}&second={keep}")
    assert answer.status == 200
    for words in (tune, keep, "Two studies are not interleaved", "shared_buffers", "not resolved"):
        assert words in answer.body


def test_a_run_has_a_page_of_its_own(store: Store) -> None:
    run = store.trials(example.add_tune(store))[0].id
    answer = ask(make_app(store, OPEN), f"/runs/{run}")
    assert answer.status == 200
    assert f"run {run} of study" in answer.body


@pytest.mark.parametrize(
    "path",
    ["/target", "/target?name=none", f"/target?name={'x' * 300}", "/beside?first=last", "/beside?first=a&second=b",
     "/runs/x", "/runs/12345", f"/runs/{'9' * 6000}", "/runs/%D9%A3"],
)  # fmt: skip
def test_what_is_not_there_is_said_in_words(store: Store, path: str) -> None:
    answer = ask(make_app(store, OPEN), path)
    assert answer.status == 404
    assert "Traceback" not in answer.body


@pytest.mark.parametrize(
    "spoilt",
    ["UPDATE study SET created_at = 1e300", "UPDATE study SET created_at = -1e300", "UPDATE change SET at = 9e999",
     "UPDATE live SET at = 1e300", "UPDATE study SET name = '<script>alert(1)</script>'",
     "UPDATE live SET state = replace(state, '900.0', '1e999')",
     "UPDATE change SET action = '<script>alert(1)</script>'",
     """UPDATE live SET state = '{"study": "of another one"}'""",
     "UPDATE study SET target = '<script>alert(1)</script>\"''>'",
     "UPDATE change SET who = '<script>alert(1)</script>', knob = who, old = who, new = who, session = who"],
)  # fmt: skip
def test_what_others_wrote_into_the_store_breaks_no_page_and_runs_nowhere(tmp_path: Path, spoilt: str) -> None:
    """A store is shared, and bundles of strangers come into it: moments, figures and names are theirs."""
    path = tmp_path / "shared.db"
    with Store.open(path) as store:
        study = store.study(example.add_tune(store))
        change = ChangeRecord(1.79e9, "me", ChangeAction.APPLY, study.target, "e", "s-1", "jit", "jit", "on", "off")
        store.add_changes([change])
        points = (LivePoint(1.79e9, 900.0, 1.5, 40.0, 30.0, 900.0, 12.5, 2.0),)
        LiveBoard(store).show(Live(study.id, time.time(), time.time() - 9, "here", 1, run=1, points=points))
    with closing(sqlite3.connect(path)) as spoiling:
        spoiling.execute(spoilt)
        spoiling.commit()
    with Store.open(path) as store:
        target = quote(store.study(study.id).target)
        app, run = make_app(store, OPEN), store.trials(study.id)[0].id
        for page in ("/", f"/target?name={target}", f"/beside?first={study.id}&second={study.id}", f"/runs/{run}",
                     f"/studies/{study.id}", "/api/v1/live.json", "/api/v1/studies.json"):  # fmt: skip
            answer = ask(app, page)
            assert answer.status in (200, 503), page
            assert answer.status == 200 or "cannot be read" in answer.body, page
            assert "json" in page or HOSTILE not in answer.body, page
            assert "json" not in page or answer.headers["content-type"] == "application/json", page


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        ("UPDATE study SET state = 'odd' WHERE id = ?", "odd"),
        ("UPDATE study SET plan = '[' WHERE id = ?", "cannot be read: "),
        ("UPDATE trial SET role = 'odd' WHERE study_id = ?", "odd"),
        ("UPDATE trial SET counters = '[' WHERE study_id = ?", "JSON"),
    ],
)
@pytest.mark.parametrize("state", ["running", "failed", "complete"])
def test_a_study_that_cannot_be_read_hides_no_other(tmp_path: Path, spoilt: str, reason: str, state: str) -> None:
    path = tmp_path / "shared.db"
    with Store.open(path) as store:
        sound, bad = example.add_tune(store), example.add_ab(store)
        for one in (sound, bad):
            LiveBoard(store).show(Live(one, time.time(), time.time() - 9, "here", 1, run=1))
    with closing(sqlite3.connect(path)) as spoiling:
        spoiling.execute("DROP TRIGGER trial_is_final")
        spoiling.execute("UPDATE study SET state = ?, created_at = ?", (state, time.time()))
        spoiling.execute(spoilt, (bad,))
        spoiling.commit()
    with Store.open(path) as store:
        answer = ask(make_app(store, OPEN), "/")
    assert answer.status == 200
    assert f"/studies/{sound}" in answer.body
    assert bad in answer.body
    assert reason in answer.body


@pytest.mark.parametrize("path", ["/target?name=x", "/beside?first=a&second=b", "/runs/1"])
def test_nobody_sees_them_without_the_token(store: Store, path: str) -> None:
    assert ask(make_app(store, CLOSED), path).status in (303, 401)


def test_the_page_of_a_study_that_goes_on_shows_what_it_found_since(store: Store) -> None:
    study = example.add_tune(store)
    app, result = make_app(store, OPEN), store.study(study).result
    ask(app, f"/studies/{study}")
    store.update_study(study, result=replace(result, notes=("seen a minute later",)))
    assert "seen a minute later" in ask(app, f"/studies/{study}").body


def test_a_command_of_an_alert_holds_no_other_one() -> None:
    """Whoever writes to a shared store names studies there as they like."""
    live = SimpleNamespace(study="x; reboot", pid=1, host="db1")
    for is_over in (True, False):
        card = SimpleNamespace(live=live, study=SimpleNamespace(kind=StudyKind.TUNE), is_over=is_over, silent_s=60.0)
        assert "--resume 'x; reboot' continues it" in _silence(cast(StudyCard, card))


def test_a_study_that_was_just_resumed_has_no_alert_of_how_it_ended_before() -> None:
    """The list of studies is read every five seconds: it still says that the study failed, or was disturbed."""
    study = replace(example.make_study(), state=StudyState.FAILED, created_at=100.0)
    counts = {study.id: {"disturbed": 2}}
    live: Any = SimpleNamespace(study=study.id, indicators=())
    runs: Any = SimpleNamespace(live=live, study=study, silent_s=None, question=None, trials=())
    assert [one.tone for one in alerts_of([], [study], counts, [], now=200.0)] == ["bad"]
    assert [one.tone for one in alerts_of([runs], [study], counts, [], now=200.0)] == ["unsure"]


def test_a_killed_replay_is_sent_to_its_answers_and_not_to_a_list_without_it() -> None:
    live = SimpleNamespace(study="r-1", pid=1, host="db1")
    study = replace(
        example.make_study(StudyKind.REPLAY), options={"replay": {"trace": "/srv/t.parquet", "output": "/srv/my run"}}
    )
    over, hangs = (
        _silence(cast(StudyCard, SimpleNamespace(live=live, study=study, is_over=is_over, silent_s=60.0)))
        for is_over in (True, False)
    )
    for told in (over, hangs):
        command = "pgdyno compare --replay /srv/t.parquet '/srv/my run'"  # of two sides
        assert f"what it had sent stays done; {command} shows the answers until then." in told
        assert "rollback" not in told
        assert "as it was found" not in told
    assert "was killed, or hangs." in hangs


def test_each_cell_of_the_studies_names_its_column_where_they_stand_one_under_the_other(store: Store) -> None:
    example.add_tune(store)
    table = ask(make_app(store, OPEN), "/").body.partition('id="studies"')[2].partition("</table>")[0]
    columns = ["study", "result", "trials", "began", "target", "kind"]
    assert re.findall(r'data-of="(\w+)"', table) == columns
    assert re.findall(r"<th [^>]*>(\w+)<", table) == columns
