"""The policy, read as data: what is of class X, or not in it at all, can reach no search space on any version."""

from __future__ import annotations

import pytest

from facts_from_params import all_names, make_facts, settings_of
from pgdyno.errors import EnvironmentUnsuitable, PolicyError, UsageError
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue, parse_catalogue
from pgdyno.knobs.policy import (
    Durability,
    SearchPolicy,
    check_settings,
    class_of,
    load_policy,
    nearest_hint,
    parse_policy,
    refuse,
    ruling_of,
    worst_class,
)
from pgdyno.knobs.space import build_space
from pgdyno.model.facts import SUPPORTED_MAJORS
from pgdyno.model.linux import LINUX_KNOBS

GENEROUS = TrialBudget(
    measure_s=10 * 3600, warmup_s=600, read_only=False, restores=False, connections=64, analyzes=True
)
NEVER = sorted(name for name, ruling in load_policy().rulings.items() if ruling.search is SearchPolicy.NEVER)
CLASS_X = sorted(name for name in load_policy().rulings if class_of(name) is Durability.X)


def test_every_parameter_of_13_to_18_has_a_ruling() -> None:
    assert all_names() - load_policy().rulings.keys() == set()
    assert load_policy().rulings.keys() - all_names() == set(LINUX_KNOBS), "a ruling for a parameter that no server has"


@pytest.mark.requirement("R-SAF-04")
@pytest.mark.parametrize(
    "name",
    [
        "fsync", "full_page_writes", "synchronous_commit", "wal_sync_method", "data_sync_retry", "zero_damaged_pages",
        "ignore_checksum_failure", "ignore_system_indexes", "ignore_invalid_pages", "autovacuum", "track_counts",
        "autovacuum_freeze_max_age", "autovacuum_multixact_freeze_max_age", "vacuum_failsafe_age",
        "vacuum_multixact_failsafe_age", "wal_level", "archive_mode", "archive_command", "archive_library",
        "archive_timeout", "max_wal_senders", "max_replication_slots", "restore_command", "synchronous_standby_names",
        "wal_keep_size", "max_slot_wal_keep_size", "hot_standby_feedback", "allow_system_table_mods",
        "recovery_target_time", "idle_replication_slot_timeout",
    ],
)  # fmt: skip
def test_what_can_lose_data_is_class_x(name: str) -> None:
    assert class_of(name) is Durability.X


@pytest.mark.parametrize(
    "name",
    [
        "listen_addresses", "port", "ssl", "password_encryption", "lc_messages", "TimeZone", "search_path",
        "default_transaction_isolation", "transaction_isolation", "lock_timeout", "statement_timeout",
        "idle_session_timeout", "idle_in_transaction_session_timeout", "row_security", "shared_preload_libraries",
    ],
)  # fmt: skip
def test_what_is_not_performance_has_no_class(name: str) -> None:
    ruling = ruling_of(name)
    assert ruling is not None
    assert (ruling.durability, ruling.search) == (None, SearchPolicy.NEVER)


def test_classes_of_the_knobs_that_users_ask_about() -> None:
    classes = {name: class_of(name) for name in ("work_mem", "commit_delay", "max_wal_size", "wal_log_hints", "fsync")}
    assert classes == {
        "work_mem": Durability.B,
        "commit_delay": Durability.A,
        "max_wal_size": Durability.C,
        "wal_log_hints": Durability.C,
        "fsync": Durability.X,
    }
    assert class_of("no_such_parameter") is None


@pytest.mark.requirement("R-SAF-04")
@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_no_space_holds_class_x_or_what_the_policy_does_not_allow(major: int) -> None:
    catalogue = load_catalogue()
    for include in (None, [name for name in catalogue if catalogue[name].search is not SearchPolicy.MANUAL]):
        facts = make_facts(major, cores=64, ram_bytes=1 << 40, huge_pages_total=1000)
        known = [name for name in include or () if name in facts.settings]
        space = build_space(catalogue, facts, include=known, budget=GENEROUS)
        assert len(space.dimensions) > 30, "an empty space would prove nothing"
        for dimension in space.dimensions:
            ruling = ruling_of(dimension.name)
            assert ruling is not None
            assert ruling.durability in (Durability.A, Durability.B, Durability.C)
            assert ruling.search is SearchPolicy.DEFAULT or dimension.name in known


@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_a_refused_parameter_cannot_be_included(major: int) -> None:
    facts = make_facts(major)
    for name in NEVER:
        for wish in ({"include": [name]}, {"only": [name]}, {"include": [name], "exclude": [name]}):
            with pytest.raises(PolicyError):
                build_space(load_catalogue(), facts, budget=GENEROUS, **wish)


@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_a_parameter_that_the_policy_does_not_know_cannot_be_included(major: int) -> None:
    new = "parameter_of_the_future"
    fact = settings_of(major)["work_mem"]
    facts = make_facts(major)
    facts = type(facts)(facts.host, facts.server, {**facts.settings, new: fact})
    with pytest.raises(PolicyError, match="unknown to the policy"):
        build_space(load_catalogue(), facts, include=[new], budget=GENEROUS)
    with pytest.raises(PolicyError, match="unknown to the policy"):
        check_settings({new: "4MB"}, facts)
    assert new not in build_space(load_catalogue(), facts, budget=GENEROUS).names()


@pytest.mark.parametrize("name", CLASS_X)
def test_the_catalogue_does_not_load_with_a_class_x_knob(name: str) -> None:
    table = (
        f'[{name}]\ngroup = "wal"\nscale = "enum"\nwhy = "{"because it is so fast " * 5}"\nsource = "nobody knows"\n'
    )
    with pytest.raises(UsageError, match="does not let anyone tune"):
        parse_catalogue(table)


@pytest.mark.parametrize("name", CLASS_X)
def test_class_x_is_refused_by_hand_too(name: str) -> None:
    with pytest.raises(PolicyError, match="class X"):
        check_settings({name: "off"}, make_facts(18))
    with pytest.raises(PolicyError, match="class X"):
        check_settings({name.upper(): "off"}, make_facts(18))


def test_a_name_is_known_in_any_case_and_given_back_as_the_server_spells_it() -> None:
    assert dict(check_settings({"WORK_MEM": "8MB"}, make_facts(18))) == {"work_mem": "8MB"}
    with pytest.raises(UsageError, match='"work_mem" is set twice'):
        check_settings({"work_mem": "8MB", "Work_Mem": "9MB"}, make_facts(18))
    with pytest.raises(EnvironmentUnsuitable, match=r'"vm\.swappiness" cannot be changed here'):
        check_settings({"VM.Swappiness": "10"}, make_facts(18))


def test_a_disposable_measurement_may_touch_class_x_and_is_labelled() -> None:
    configuration = check_settings({"fsync": "OFF", "work_mem": "8MB"}, make_facts(18), disposable_measurement=True)
    assert dict(configuration) == {"fsync": "off", "work_mem": "8MB"}
    assert worst_class(configuration) is Durability.X
    assert worst_class(["work_mem", "jit"]) is Durability.B
    assert worst_class([]) is None
    with pytest.raises(PolicyError, match="not a performance setting"):
        check_settings({"listen_addresses": "*"}, make_facts(18), disposable_measurement=True)


def test_unknown_names_come_with_the_nearest_ones() -> None:
    with pytest.raises(UsageError, match='unknown knob "shared_bufers"') as caught:
        refuse("shared_bufers", known=settings_of(18).keys())
    assert caught.value.hint == "Did you mean shared_buffers?"


def test_names_in_one_word_are_told_apart():
    assert "again for each" in nearest_hint("work_mem,random_page_cost", ["random_page_cost"])


def test_manual_knobs_are_not_searched_but_may_be_set() -> None:
    with pytest.raises(PolicyError, match="never searched"):
        build_space(load_catalogue(), make_facts(18), include=["max_connections"], budget=GENEROUS)
    assert dict(check_settings({"max_connections": "200"}, make_facts(18))) == {"max_connections": "200"}


@pytest.mark.parametrize(
    "text",
    [
        "surprise = 1\nrule = []\n",
        '[[rule]]\nclass = "Z"\nwhy = "w"\nnames = ["a"]\n',
        '[[rule]]\nclass = "X"\nsearch = "default"\nwhy = "w"\nnames = ["a"]\n',
        '[[rule]]\nclass = "A"\nsearch = "never"\nwhy = "w"\nnames = ["a"]\n',
        '[[rule]]\nclass = "A"\nsearch = "default"\nnames = ["a"]\n',
        '[[rule]]\nclass = "A"\nsearch = "default"\nwhy = "w"\nnames = ["a", "a"]\n',
    ],
)
def test_a_slip_in_the_policy_file_is_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_policy(text)
