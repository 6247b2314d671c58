"""A live study on a real Patroni pair: what is kept goes into the pair's own configuration, and a failover ends it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fix_patroni import NODES, PatroniCluster, until
from live_driver import short_study, stopped_bundle
from live_load import MS, planted_load
from pgdyno.errors import ExitCode
from pgdyno.model.person.live_question import LiveQuestion
from pgdyno.model.person.operator_request import OperatorAction, OperatorRequest, Operators
from pgdyno.server import places
from pgdyno.server.patroni_api import PatroniApi
from pgdyno.store.catalogue import Store
from pgdyno.store.requests import RequestBoard
from pgdyno.studies.live.person.hands import HeardAnswer, LiveHands
from pgdyno.targets.connect_routes import open_patroni
from pgdyno.targets.target import Target
from server_image import eventually
from warm_program import run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.xdist_group("patroni"), pytest.mark.timeout(600)]
OPERATORS = Operators({"alice": "a" * 40})
FOUND, KEPT = "5MB", "6MB"
SAME = "pg/test_patroni_live.py::test_a_failover_in_mid_pair_ends_it_with_the_settings_of_before_on_both_nodes"
SEEN_S = 6.0
"""Periods in which whoever looks sees that B is in force."""
MANY: dict[str, Any] = {"classes": 2 * len(MS), "ms": MS * 2}
"""Sessions: Patroni has one of our role, and one of four would be taken for the load's."""


@pytest.fixture
def target(patroni: PatroniCluster) -> Target:
    return open_patroni(PatroniApi((patroni.api["alpha"],), patroni.auth_file), patroni.conninfo)


def on_both(value: str) -> dict[str, str]:
    return dict.fromkeys(NODES, value)


@pytest.mark.requirement("R-REP-12", "R-SAF-01")
def test_a_winner_is_kept_in_the_dynamic_configuration_exported_and_taken_back(
    patroni: PatroniCluster, target: Target, pgdyno_home: Path
) -> None:
    document = patroni.document()
    seen: list[tuple[LiveQuestion, dict[str, str]]] = []

    def confirm(hands: LiveHands) -> Callable[[LiveQuestion], HeardAnswer | None]:
        def ask(question: LiveQuestion) -> HeardAnswer | None:
            keeps = question.actions[0] is OperatorAction.KEEP
            wanted = on_both(FOUND if keeps else KEPT)
            until(lambda: patroni.show("work_mem") == wanted, lambda: f"{patroni.show('work_mem')}, not {wanted}")
            seen.append((question, patroni.show("work_mem")))
            if not keeps:
                assert patroni.document() != document
            hands.ask(question)
            with Store.open(places.data_dir() / "pgdyno.db") as store:
                request = OperatorRequest(
                    question.id, hands.study, hands.run, question.actions[0], "alice", "it is proved", time.time(),
                    question.digest,
                )  # fmt: skip
                RequestBoard(store).add(OPERATORS.sign(replace(request, signature="")))
                eventually(lambda: hands.has_answer, "the operator's answer")
            return hands.settle(None)

        return ask

    with planted_load(target.postgres, {KEPT: 0.4}, **MANY):
        told = short_study(target, {"work_mem": KEPT}, confirm=confirm, operators=OPERATORS, resolved=True)
    assert told.exit_code is ExitCode.OK, told.title
    (keep, _), (undo, _) = seen
    facts = {fact.label: fact.text for fact in keep.facts}
    assert facts["written to"] == "the dynamic configuration of the Patroni cluster"
    assert (keep.actions[0], undo.actions[0]) == (OperatorAction.KEEP, OperatorAction.UNDO)
    assert patroni.document() == document
    until(lambda: patroni.show("work_mem") == on_both(FOUND), lambda: f"not back: {patroni.show('work_mem')}")
    asked = ("--patroni", patroni.api["alpha"], "--patroni-auth", str(patroni.auth_file), "--target", patroni.conninfo)
    exported = run_pgdyno("apply", "--study", told.study, "--emit", "patroni", *asked)
    assert exported.returncode == 0, exported.stderr
    assert "work_mem" in exported.stdout
    assert json.dumps(KEPT)[1:-1] in exported.stdout
    assert patroni.document() == document, "an export changes nothing"


@pytest.mark.requirement("R-SAF-02")
@pytest.mark.parametrize("is_crash", [False, pytest.param(True, marks=pytest.mark.night(SAME))])
def test_a_failover_in_mid_pair_ends_it_with_the_settings_of_before_on_both_nodes(
    patroni: PatroniCluster, target: Target, pgdyno_home: Path, is_crash: bool
) -> None:
    """It comes while B is in force. Of a crash Patroni may start the same leader again; the study goes on then."""
    document, leader, said = patroni.document(), patroni.leader, []
    has_pair, failed = threading.Event(), []

    def fail() -> None:
        has_pair.wait(300)
        try:
            until(lambda: patroni.show("work_mem").get(leader) == KEPT, lambda: "B is not in force")
            (patroni.crash_leader if is_crash else patroni.switch_over)()
        except Exception as error:
            failed.append(error)

    def announce(text: str) -> None:
        said.append(text)
        if text.startswith("after 1 pair"):
            has_pair.set()

    beside = threading.Thread(target=fail)
    beside.start()
    try:
        with planted_load(target.postgres, {KEPT: 0.9}, **MANY):
            told = short_study(target, {"work_mem": KEPT}, announce=announce, period_s=SEEN_S)
    finally:
        has_pair.set()
        beside.join(300)
    assert failed == []
    assert told.exit_code in (ExitCode.RESTORED, ExitCode.NOT_RESOLVED) or is_crash, said
    assert is_crash or patroni.leader != leader
    assert patroni.document() == document
    until(lambda: patroni.show("work_mem") == on_both(FOUND), lambda: f"not back: {patroni.show('work_mem')}")
    for journal in (places.state_dir() / "undo").glob("*/journal.jsonl"):
        assert '"closed"' in journal.read_text()


@pytest.mark.requirement("R-TUN-06")
def test_a_bundle_that_needs_restarts_is_compared_on_the_cluster_and_taken_back_on_both_nodes(
    patroni: PatroniCluster, target: Target, pgdyno_home: Path
) -> None:
    document, found = patroni.document(), patroni.show("shared_buffers")
    with planted_load(target.postgres, {"32MB": 0.4}, knob="shared_buffers", **MANY):
        stopped_bundle(
            target, {"shared_buffers": "32MB"}, lambda: patroni.show("shared_buffers")[patroni.leader] == "32MB"
        )
    assert patroni.document() == document
    until(lambda: patroni.show("shared_buffers") == found, lambda: f"not back: {patroni.show('shared_buffers')}")
