"""What a person may do with a winner while its study is still there: keep it, and take it back again.

The study's own process puts it in force, as `pgdyno apply` does: through the route by which the cluster takes its
settings, with the undo bundle on disk first, and on record. `pgdyno rollback` takes it back at any later time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from pgdyno.errors import PgdynoError
from pgdyno.model.person.live_question import LiveQuestion
from pgdyno.model.person.operator_request import OperatorAction
from pgdyno.model.results.live import LiveResult
from pgdyno.server import places
from pgdyno.studies.advice.accept import Acceptance, prepare, put_in_force, record_rollback
from pgdyno.studies.live.ground import WatchedServer
from pgdyno.studies.live.person.hands import HeardAnswer
from pgdyno.studies.live.person.questions import keep_question, undo_question
from pgdyno.studies.who import who
from pgdyno.studies.winner import winner_of
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.undo.rollback import LocalSessions

Confirm = Callable[[LiveQuestion], HeardAnswer | None]
"""Ask a person in the terminal and in the dashboard, and return what they said; None for silence."""

ANSWER_S = 900.0
"""So long the study waits for an answer unless it is told otherwise."""
_PLACES = {
    "sql": "ALTER SYSTEM, in postgresql.auto.conf",
    "patroni": "the dynamic configuration of the Patroni cluster",
}
_FILE = "pgdyno's own file in the server's configuration"


def concluded(watched: WatchedServer, result: LiveResult, *, confirm: Confirm | None, answer_s: float) -> LiveResult:
    """Complete the study and, where the dashboard may answer and there is a winner, ask whether to keep it.

    `result` is that of the study that was made on `watched`, whose server was restored before. `confirm` asks a person,
    and the question stays open for `answer_s` seconds; None asks nobody. What fails afterwards is told, and changes
    nothing of the study.
    """
    winner = result.switch if result.search is None else result.search.winner
    hands, announce = watched.hands, watched.ground.announce
    if not hands.takes_requests or confirm is None or winner is None or not winner.is_acceptable:
        return watched.ending.complete(result)
    watched.ending.store_complete(result)
    watched.recorder.phase("over: the server is as it was found")
    verdict = winner.verdict.sentence("B", "A") if winner.verdict is not None else ""
    try:
        _keep(watched, verdict, confirm, answer_s)
    except PgdynoError as error:
        announce(f"not kept: {error.message}. {error.hint or ''}".rstrip())
    assert watched.ending.so_far is not None, "it was completed"
    return watched.ending.so_far


def _keep(watched: WatchedServer, verdict: str, confirm: Confirm, answer_s: float) -> None:
    ground = watched.ground
    target, study = ground.target, ground.store.study(watched.study.id)
    acceptance = prepare(target, (winner_of(study, read_facts(target)),))
    if not acceptance.configuration:
        return
    settings, before = dict(acceptance.configuration), acceptance.before
    question = keep_question(
        settings,
        before,
        verdict=verdict,
        where=_place(target, acceptance),
        undo=_later("SESSION", target),
        seconds=answer_s,
    )
    answer = confirm(question)
    if answer is None or answer.action is not OperatorAction.KEEP:
        return
    now = prepare(target, (winner_of(study, read_facts(target)),))
    if (now.configuration, now.before) != (acceptance.configuration, before):
        ground.announce("not kept: somebody changed these settings while the question waited; pgdyno apply asks again")
        return
    done = put_in_force(target, acceptance, ground.store, announce=ground.announce, by=f"{answer.who}, {who()}")
    ground.announce(f"kept: {_later(done.session, target)} takes it back")
    watched.recorder.phase(f"kept by {answer.who}, session {done.session}")
    _offer_undo(watched, done.session, settings, before, confirm, answer_s)


def _offer_undo(
    watched: WatchedServer,
    session: str,
    settings: Mapping[str, str],
    before: Mapping[str, str],
    confirm: Confirm,
    answer_s: float,
) -> None:
    target, store = watched.ground.target, watched.ground.store
    answer = confirm(undo_question(settings, before, undo=_later(session, target), seconds=answer_s))
    if answer is None or answer.action is not OperatorAction.UNDO:
        return
    place = target.remote or LocalSessions(places.state_dir() / "undo")
    try:
        restored = place.roll_back(session)
    except PgdynoError as error:
        watched.ground.announce(f"it could not be taken back: {error.message}. {error.hint or ''}".rstrip())
        return
    record_rollback(store, session, time.time(), by=f"{answer.who}, {who()}")
    said = "the server is as it was before" if restored.is_whole else f"check it: {_later(session, target)} says what"
    watched.ground.announce(f"taken back by {answer.who}; {said}")


def _place(target: Target, acceptance: Acceptance) -> str:
    kind = "" if target.route is None else str(target.route.record().get("kind"))
    moved = [name for name in acceptance.configuration if name in acceptance.facts.by_alter_system]
    if kind in _PLACES or not moved:
        return _PLACES.get(kind, _FILE)
    told = f"{_PLACES['sql']}, as {', '.join(moved)} {'is' if len(moved) == 1 else 'are'} set now"
    return told if len(moved) == len(acceptance.configuration) else f"{_FILE}; {told}"


def _later(session: str, target: Target) -> str:
    return " ".join(["pgdyno rollback", session, *([target.remote.request.flags] if target.remote else [])])
