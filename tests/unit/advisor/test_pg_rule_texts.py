"""What holds for every rule of the PostgreSQL part: fields, policy, ranges, and no crash on odd targets."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor_case import GB, MB, advise, make_case, make_host, make_server, shipped_rules
from facts_from_params import make_facts, settings_of
from pgdyno.advisor.rulebook import contradictions
from pgdyno.knobs.policy import Durability, check_settings, class_of
from pgdyno.model.evidence import (
    Checkpoint,
    Concurrency,
    HostActivity,
    LogEvidence,
    Statement,
    Statistics,
    TableActivity,
    Window,
    WorkingSet,
    WorkingSetClass,
    WorkloadClass,
)
from pgdyno.model.facts import SUPPORTED_MAJORS, Unknown
from pgdyno.model.finding import Answer, ChangeKind
from pgdyno.model.inventory import HostInventory, Memory, Processor, SwapArea

THEMES = (
    "async_io",
    "background_writer",
    "buffers",
    "checkpoints",
    "defaults",
    "extensions",
    "huge_page_use",
    "planner",
    "sessions",
    "statements",
    "vacuum",
    "versions",
    "wal",
)
RULES = [rule for rule in shipped_rules() if rule.theme in THEMES]
OURS = ("CON-08", "CON-09", "CON-12", *(f"CON-{number}" for number in (18, 19, 20, 21, 22, 23, 34, 38, 39, 40)))
LIBRARIES = "shared_preload_libraries"
"""Not a performance setting, so no search may touch it; a person puts it in force."""


@pytest.mark.requirement("R-ADV-01")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_rule_lacks_a_field(rule):
    for field in ("title", "why", "mechanism", "risk", "apply", "persist", "verify", "revert", "provenance"):
        assert getattr(rule, field), field
    assert rule.requirements
    for text in (rule.why, rule.mechanism, rule.risk, rule.verify):
        assert text.rstrip().endswith((".", ";", "?")), text


@pytest.mark.requirement(*OURS)
def test_contradictions_and_rules_name_each_other():
    by_id = {rule.id: rule for rule in RULES}
    for name in OURS:
        row = contradictions()[name]
        assert row.first.text != row.second.text
        assert name in by_id[row.decided_by].contradictions


def test_figures_of_another_system_are_history():
    for rule in RULES:
        for effect in rule.effects:
            if effect.source.document == "system-z-databases":
                assert effect.low is None


@st.composite
def cases(draw):
    """Draw a target with any size, version and evidence, known or not."""
    major = draw(st.sampled_from(SUPPORTED_MAJORS))
    ram = draw(st.integers(64 * MB, 1 << 44))
    share = st.floats(0, 1)
    rate = st.one_of(st.floats(0, 1e10), st.just(Unknown("not measured")))
    changed = {
        "shared_buffers": str(draw(st.integers(16, 1 << 30))),
        "work_mem": str(draw(st.integers(64, 1 << 30))),
        "max_wal_size": str(draw(st.integers(2, 1 << 30))),
        "checkpoint_timeout": str(draw(st.integers(30, 86400))),
        "checkpoint_completion_target": str(draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]))),
        "max_connections": str(draw(st.integers(1, 262143))),
        "max_parallel_workers_per_gather": str(draw(st.integers(0, 1024))),
        "bgwriter_lru_maxpages": str(draw(st.integers(0, 1073741823))),
        "random_page_cost": str(draw(st.sampled_from(["0", "1", "4", "1e10"]))),
        "seq_page_cost": str(draw(st.sampled_from(["0", "1", "1e10"]))),
        "vacuum_cost_limit": str(draw(st.integers(1, 10000))),
    }
    kept = draw(st.sets(st.sampled_from(sorted(changed))))
    server = make_server(major, changed={name: changed[name] for name in kept})
    host = make_host(ram_bytes=ram, cpus=draw(st.integers(1, 512)))
    swap = (SwapArea("/dev/sdc", "partition", GB, 0, -2),) if draw(st.booleans()) else ()
    host = replace(host, memory=replace(host.memory, swap=swap, limited_by=draw(st.sampled_from(["RAM", "cgroup v2"]))))
    points = tuple(
        Checkpoint(f"2026-11-21 10:0{minute}:00", "wal", 1, 0.1, distance_bytes=draw(st.integers(0, 1 << 50)))
        for minute in range(draw(st.integers(0, 3)))
    )
    evidence = {
        "log": LogEvidence(
            ("a",), 1, checkpoints=points, too_frequent_s=tuple(draw(st.lists(st.integers(0, 30)))),
            temp_files=draw(st.integers(0, 2)), largest_temp_bytes=draw(st.integers(0, 1 << 50)),
        ),
        "statistics": Statistics(
            Window(60, "sampled"), hit_ratio=draw(share), write_share=draw(share), full_page_image_share=draw(share),
            maxwritten_clean=draw(st.integers(0, 9)), wal_bytes_s=draw(rate), temp_bytes_s=draw(rate),
        ),
        "wal_rate_bytes_s": draw(rate),
        "working_set": draw(
            st.one_of(
                st.just(Unknown("not estimated")),
                st.builds(WorkingSet, st.sampled_from(WorkingSetClass), st.just(MB), st.just(ram), st.just("x")),
            )
        ),
        "workload": draw(st.sampled_from([Unknown("not told"), *WorkloadClass])),
        "concurrency": Concurrency(connected=draw(st.floats(0, 5000)), active_mean=draw(st.floats(0, 5000)),
                                   lock_waiters_mean=draw(st.floats(0, 50)), knee_clients=draw(st.integers(1, 500))),
        "tables": (
            TableActivity("public", "t", "d", ram, 0, 0.5, 0.5, dead_share=draw(share),
                          growth_bytes=draw(st.integers(0, ram))),
        ),
        "statements": (Statement("SELECT 1", 9, draw(st.floats(0, 1e6)), draw(share), 1.0),),
    }  # fmt: skip
    case = make_case(host, server, **evidence)
    busy = HostActivity(Window(60, "sampled"), idle_pct=draw(st.floats(0, 100)))
    return replace(case, evidence=replace(case.evidence, host=busy))


@pytest.mark.requirement("R-PG-17", "R-PG-33", "R-VER-05")
@settings(max_examples=150, deadline=None)
@given(case=cases())
def test_proposals_keep_to_policy_range_and_half_of_the_memory(case):
    memory = case.host.memory.limit_bytes
    settings_given = make_facts(case.server.major)
    findings = advise(case.inventory, case.evidence, RULES)
    assert len(findings) == len(RULES)
    for finding in findings:
        texts = (
            (finding.title, finding.why, finding.reason, *finding.evidence) if finding.answer is Answer.FINDING else ()
        )
        assert not any(re.search(r"\{[a-z_]*\}", text) for text in texts)
        for change in finding.changes:
            if change.kind is not ChangeKind.POSTGRESQL or change.knob == LIBRARIES:
                continue
            assert class_of(change.knob) is not Durability.X
            checked = check_settings({change.knob: change.value}, settings_given)
            assert checked[change.knob] == change.value
            if change.knob == "shared_buffers":
                blocks = case.server.settings["shared_buffers"]
                assert (
                    make_case(
                        server=replace(
                            case.server,
                            settings={
                                "shared_buffers": replace(blocks, setting=str(round(_bytes(change.value) / 8192)))
                            },
                        )
                    ).number("shared_buffers")
                    <= memory / 2
                )


def _bytes(text):
    from pgdyno.units import parse_quantity

    return parse_quantity(text, "B")


@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_nothing_known_of_the_host_is_unknown_and_not_made_up(major):
    host = HostInventory(processor=Processor(), memory=Memory())
    case = make_case(host, make_server(major))
    answers = {finding.rule: finding for finding in advise(case.inventory, case.evidence, RULES)}
    for rule in ("shared-buffers", "effective-cache-size", "memory-reserve", "huge-page-use"):
        assert answers[rule].answer is Answer.UNKNOWN


def test_no_server_gives_no_finding_and_nothing_in_order():
    case = make_case()
    case = replace(case, inventory=replace(case.inventory, server=Unknown("only the host was captured")))
    answers = {finding.rule: finding.answer for finding in advise(case.inventory, case.evidence, RULES)}
    assert answers.pop("shared-buffers-half") is Answer.NOT_APPLICABLE  # there is no swap
    assert set(answers.values()) == {Answer.UNKNOWN}


@settings(max_examples=60, deadline=None)
@given(names=st.sets(st.sampled_from(sorted(settings_of(18)))))
def test_any_part_of_the_settings_may_be_missing(names):
    server = make_server(18)
    rest = {name: row for name, row in server.settings.items() if name not in names}
    case = make_case(server=replace(server, settings=rest))
    assert len(advise(case.inventory, case.evidence, RULES)) == len(RULES)


NUMBERS = sorted(name for name, row in settings_of(18).items() if row.vartype in ("integer", "real"))


@pytest.mark.requirement("R-VER-06")
@settings(max_examples=80, deadline=None)
@given(
    broken=st.dictionaries(
        st.sampled_from(NUMBERS), st.sampled_from(["", "abc", "-5", "0", "1e400", "12 parsecs", "0x10"]), max_size=8
    ),
    case=cases(),
)
def test_values_that_are_no_numbers_break_nothing(broken, case):
    rows = {
        name: replace(row, setting=broken.get(name, row.setting), source="configuration file")
        for name, row in case.server.settings.items()
    }
    case = replace(case, inventory=replace(case.inventory, server=replace(case.server, settings=rows)))
    assert len(advise(case.inventory, case.evidence, RULES)) == len(RULES)
