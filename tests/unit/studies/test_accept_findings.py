"""What a session may set of a finding, and what is refused before anything is changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts_from_params import make_facts
from pgdyno.advisor.settable import parts_of
from pgdyno.errors import EnvironmentUnsuitable, PolicyError, UsageError
from pgdyno.knobs.policy import Durability, load_policy
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.facts import KernelFact
from pgdyno.model.finding import Answer, Change, ChangeKind, Depth, Finding, ProofState, RuleGroup, RuleProof
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice import accept
from pgdyno.studies.advice.accept import prepare, record_rollback
from pgdyno.studies.advice.advised import chosen
from pgdyno.studies.winner import ORIGIN as WINNER


def finding(rule, *changes, **fields):
    values = {"answer": Answer.FINDING, "group": RuleGroup.GENERAL, "depth": Depth.BASIC, "title": "It is so"}
    return Finding(rule=rule, changes=changes, **{**values, **fields})


def pg(knob, value, current=None):
    return Change(ChangeKind.POSTGRESQL, knob, value, current)


class _Target:
    name = "a server"


@pytest.fixture
def facts(monkeypatch):
    monkeypatch.setattr(accept, "read_facts", lambda target: make_facts(18))


def test_parts_are_settings_and_work_for_people():
    parts = parts_of([
        finding("a", pg("work_mem", "8MB", "4MB"), Change(ChangeKind.LINUX, "vm.swappiness", "0", "60")),
        finding("b", Change(ChangeKind.LINUX, "kernel.sem", "250 32000", "1 2")),
        finding("c", pg("shared_preload_libraries", "pg_stat_statements")),
        finding("d", Change(ChangeKind.DDL, commands=("CREATE INDEX;",), undo=("DROP INDEX;",))),
        finding("e", pg("fsync", "off")),
    ])  # fmt: skip
    assert parts.settings == {"work_mem": "8MB", "vm.swappiness": "0"}
    assert parts.found == {"work_mem": "4MB", "vm.swappiness": "60"}
    assert parts.commands == (
        "sysctl -w 'kernel.sem=250 32000'",
        "by hand: shared_preload_libraries = pg_stat_statements",
        "CREATE INDEX;",
    )
    assert parts.undo == ("DROP INDEX;", "sysctl -w 'kernel.sem=1 2'")
    assert parts.refused.keys() == {"fsync"}


@pytest.mark.requirement("R-SAF-04")
@pytest.mark.parametrize("force", [False, True])
def test_class_x_is_refused_whatever_the_flags(facts, force):
    for name, ruling in load_policy().rulings.items():
        if ruling.durability is Durability.X:
            with pytest.raises(PolicyError, match="class X"):
                prepare(_Target(), [finding("x", pg(name, "off"), pg("work_mem", "8MB"))], force=force)


def test_what_was_found_worse_here_needs_force(facts):
    worse = RuleProof("s1", "worse", 0.9, 0.85, 0.95)
    refuted = finding("a", pg("work_mem", "8MB"), state=ProofState.REFUTED, proof=worse)
    with pytest.raises(UsageError, match="study s1 found it worse"):
        prepare(_Target(), [refuted])
    assert dict(prepare(_Target(), [refuted], force=True).configuration) == {"work_mem": "8MB"}


@pytest.mark.requirement("R-SAF-03", "R-SAF-08")
def test_values_are_checked_before_anything_is_changed(facts):
    with pytest.raises(UsageError, match="outside of this server's range"):
        prepare(_Target(), [finding("a", pg("work_mem", "1kB"))])
    large = finding("a", pg("shared_buffers", "23GB"))
    for origin, instead in ((large.origin, "Leave that rule out;"), (WINNER, "Measure it with less memory")):
        with pytest.raises(EnvironmentUnsuitable, match="not be safe here") as unsafe:
            prepare(_Target(), [replace(large, origin=origin)])
        assert (unsafe.value.hint or "").startswith(instead)
    with pytest.raises(UsageError, match="nothing of this can be set by pgdyno") as refused:
        prepare(_Target(), [replace(finding("fsync"), proposed="fsync = on, set by hand")])
    assert refused.value.detail == "fsync is for you to do: fsync = on, set by hand"


class _OwnRole:
    """A server whose role of ours has 2 GB of work_mem from ALTER ROLE; may it read the files?"""

    def __init__(self, may_read):
        self.may_read = may_read

    def fetch(self, query, params):
        assert params == {"names": ["work_mem"]}
        if not self.may_read:
            raise EnvironmentUnsuitable("permission denied for view pg_file_settings")
        return [{"name": "work_mem", "setting": "8MB", "sourcefile": "/etc/postgresql.conf", "sourceline": 3}]


@pytest.mark.parametrize("may_read", [True, False])
def test_what_alter_role_gave_our_own_sessions_is_not_the_servers(monkeypatch, may_read):
    made = make_facts(18)
    ours = replace(made.settings["work_mem"], setting=str(2 << 20), source="user")
    monkeypatch.setattr(accept, "read_facts", lambda _: replace(made, settings={**made.settings, "work_mem": ours}))
    target = _Target()
    target.postgres = _OwnRole(may_read)
    asked = [finding("a", pg("shared_buffers", "6GB"))]
    if may_read:
        plan = prepare(target, asked)
        assert plan.facts.settings["work_mem"].setting == "8192"
        assert dict(plan.configuration) == {"shared_buffers": "6GB"}
    else:
        with pytest.raises(EnvironmentUnsuitable, match="not be safe here"):
            prepare(target, asked)


def test_what_is_in_force_already_is_told_and_not_set_again(facts):
    part = prepare(_Target(), [finding("a", pg("work_mem", "4MB"), pg("shared_buffers", "256MB"))])
    assert (dict(part.there), dict(part.configuration)) == ({"work_mem": "4MB"}, {"shared_buffers": "256MB"})
    whole = prepare(_Target(), [finding("a", pg("work_mem", "4MB"))])
    assert (dict(whole.there), dict(whole.configuration), whole.restart) == ({"work_mem": "4MB"}, {}, ())


def test_the_plan_says_what_needs_a_restart(facts):
    plan = prepare(_Target(), [finding("a", pg("work_mem", "8MB"), pg("shared_buffers", "256MB"))])
    assert plan.restart == ("shared_buffers",)
    assert plan.before == {"work_mem": "4MB", "shared_buffers": "128MB"}


def test_a_pool_of_huge_pages_is_of_no_use_before_a_restart_and_the_plan_says_so(monkeypatch):
    fact = KernelFact("vm.nr_hugepages", "0", minimum=0, maximum=1_000_000)
    made = make_facts(18)
    known = replace(made, host=replace(made.host, huge_page_bytes=2 << 20), kernel={fact.name: fact})
    monkeypatch.setattr(accept, "read_facts", lambda target: known)
    change = Change(ChangeKind.LINUX, "vm.nr_hugepages", "200", "0")
    assert prepare(_Target(), [finding("a", change)]).restart == ("vm.nr_hugepages",)


def test_rules_are_chosen_by_name_or_by_proof():
    tested = finding("t", pg("work_mem", "8MB"), state=ProofState.TESTED)
    silent = finding("s", answer=Answer.OK, reason="It is as it should be.")
    other = finding("o", pg("jit", "off"))
    findings = [tested, silent, other]
    assert chosen(findings, ["o"]) == (other,)
    assert chosen(findings, [], all_proved=True) == (tested,)
    with pytest.raises(UsageError, match='no rule "nothing"'):
        chosen(findings, ["nothing"])
    with pytest.raises(UsageError, match="proposes nothing here: it answers ok"):
        chosen(findings, ["s"])


def test_a_rollback_is_recorded_once(tmp_path):
    change = ChangeRecord(1.0, "a@b", ChangeAction.APPLY, "t", "e", "s1", "r", "work_mem", "4MB", "8MB", "study")
    with Store.open(tmp_path / "store.db") as store:
        store.add_changes([change])
        assert record_rollback(store, "s1", 2.0) == 1
        assert record_rollback(store, "s1", 3.0) == 0
        assert record_rollback(store, "other", 3.0) == 0
        back = store.changes()[1]
    assert (back.action, back.old, back.new, back.rule) == (ChangeAction.ROLLBACK, "8MB", "4MB", "r")
