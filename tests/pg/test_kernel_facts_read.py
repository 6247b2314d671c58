"""Facts of a real server carry the Linux knobs of its host, and a tune may search them beside its own."""

from __future__ import annotations

import pytest

from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.space import build_space
from pgdyno.model import linux
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.inspect import read_facts

pytestmark = pytest.mark.pg


def test_the_facts_of_a_server_hold_its_hosts_knobs(sandbox18: Sandbox) -> None:
    facts = read_facts(sandbox18.target())
    assert tuple(facts.kernel) == linux.LINUX_KNOBS
    ratio, size = (facts.kernel[name].value for name in (linux.DIRTY_RATIO, linux.DIRTY_BYTES))
    assert (ratio == "0") != (size == "0"), "one of two counterparts counts"
    assert read_facts(sandbox18.target()).environment_hash() == facts.environment_hash()
    budget = TrialBudget(measure_s=30, warmup_s=10, read_only=False, connections=4)
    space = build_space(load_catalogue(), facts, linux=True, budget=budget)
    named = {*space.names(), *(out.name for out in space.excluded)}
    assert named >= set(linux.LINUX_KNOBS), "searched, or left out with a reason"
    for name in linux.LINUX_KNOBS:
        if facts.kernel[name].obstacle is not None:
            assert name not in space.names()
