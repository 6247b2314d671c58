"""`pgdyno live --rule` on a real server: what a rule proposes is proved on one planted load, and refuted on another."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_driver import short_study
from live_load import planted_load
from pgdyno.errors import ExitCode
from pgdyno.model.finding import ProofState
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.advised import AdviceSource, advise_on, proposed_by

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.timeout(900)]  # a busy machine repeats studies
RULE, KNOB = "effective-cache-size", "effective_cache_size"
"""It proposes something for every sandbox: a share of the host's memory."""
SHORT = (4.0, 8.0, 12.0)
"""Calls that come in turn where they sleep twice as long, too."""


@pytest.mark.requirement("R-TUN-01")
@pytest.mark.parametrize(
    ("factor", "code", "state"),
    [(0.4, ExitCode.OK, ProofState.TESTED), (2.0, ExitCode.FINDINGS, ProofState.REFUTED)],
)
def test_a_finding_is_proved_or_refuted_by_the_load_that_is_there(
    sandbox18: Sandbox, pgdyno_home: Path, factor: float, code: ExitCode, state: ProofState
) -> None:
    target = sandbox18.target()
    now = str(target.postgres.fetch("SELECT current_setting(%s) AS value", [KNOB])[0]["value"])
    with Store.open(places.data_dir() / "pgdyno.db") as store:
        found = proposed_by(target, RULE, AdviceSource(), store=store, progress=lambda _text: None)
    assert list(found.settings) == [KNOB]
    with planted_load(target.postgres, {now: 1.0}, other=factor, ms=SHORT, knob=KNOB):
        told = short_study(target, dict(found.settings), rule=found.option, resolved=True)
    assert told.exit_code is code, told.title
    with Store.open(places.data_dir() / "pgdyno.db") as store:
        findings, _ = advise_on(target, AdviceSource(), store=store, progress=lambda _text: None)
    (finding,) = (one for one in findings if one.rule == RULE)
    assert finding.state is state
    assert finding.proof is not None
    assert finding.proof.study == told.study
