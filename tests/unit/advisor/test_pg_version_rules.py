"""Rules on versions, against the parameters of real servers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from advisor_case import advise, finding_of, make_case, make_server, shipped_rules
from facts_from_params import settings_of
from pgdyno.advisor.versions import release_of, removals, versions
from pgdyno.model.facts import SUPPORTED_MAJORS, SettingFact
from pgdyno.model.finding import Answer, Severity

DEBIAN = ("extension_destdir",)
"""Parameters that a distribution's patch adds."""


def setting(name, value, source="configuration file"):
    return SettingFact(name, value, None, "string", "sighup", source)


def dated(case, day):
    return replace(case, inventory=replace(case.inventory, taken_at=f"{day}T10:00:00Z"))


@pytest.mark.requirement("R-ADV-12")
@pytest.mark.parametrize(
    ("major", "day", "answer"),
    [
        (13, "2025-11-12", Answer.OK),
        (13, "2025-11-14", Answer.FINDING),
        (13, "", Answer.FINDING),
        (15, "2026-11-22", Answer.OK),
        (18, "2026-11-22", Answer.OK),
        (18, "", Answer.UNKNOWN),
        (18, "2031-01-01", Answer.FINDING),
    ],
)
def test_end_of_support(major, day, answer):
    case = make_case(server=make_server(major))
    assert finding_of("end-of-life", dated(case, day) if day else case).answer is answer


@pytest.mark.requirement("R-ADV-12")
def test_gap_is_named_and_nothing_is_changed():
    finding = finding_of("end-of-life", make_case(server=make_server(13)))
    assert "5 major versions behind 18" in finding.evidence[0]
    assert not finding.changes
    newer = make_server(18, version_num=190000)
    assert finding_of("end-of-life", make_case(server=newer)).answer is Answer.OK


def test_release_names():
    assert [release_of(number) for number in (90507, 90624, 100023, 180006)] == ["9.5", "9.6", "10", "18"]


@pytest.mark.requirement("R-VER-01")
@pytest.mark.parametrize("removal", versions().removed, ids=lambda removal: removal.name)
def test_removed_parameters_are_gone_from_real_servers(removal):
    for major in SUPPORTED_MAJORS:
        assert (removal.name in settings_of(major)) is (major < removal.gone and removal.gone > 13), major
    if removal.instead and removal.gone >= 13:
        assert removal.instead in settings_of(removal.gone)


@pytest.mark.requirement("R-VER-01")
def test_every_parameter_that_left_a_real_server_is_listed():
    listed = {removal.name: removal.gone for removal in versions().removed}
    for before, after in pairwise(SUPPORTED_MAJORS):
        gone = {
            name
            for name, row in settings_of(before).items()
            if name not in settings_of(after) and row.context != "internal" and name not in DEBIAN
        }
        assert {name: listed.get(name) for name in gone} == dict.fromkeys(gone, after)


@pytest.mark.requirement("R-VER-01", "R-VER-06", "R-SAF-05")
def test_configuration_of_another_version_is_listed_with_what_to_do():
    old = {
        "stats_temp_directory": setting("stats_temp_directory", "/run/pg"),
        "wal_keep_segments": setting("wal_keep_segments", "64"),
        "checkpoint_segments": setting("checkpoint_segments", "32"),
    }
    finding = finding_of("removed-parameters", make_case(server=make_server(18, extra=old)))
    words = " ".join(finding.evidence)
    assert finding.severity is Severity.WARNING
    assert "3 of its parameters are gone" in finding.title
    del old["stats_temp_directory"], old["wal_keep_segments"]
    one = finding_of("removed-parameters", make_case(server=make_server(18, extra=old)))
    assert "1 of its parameters is gone" in one.title
    assert "drop it: statistics live in shared memory" in words
    assert "wal_keep_size = wal_keep_segments x 16MB" in words
    assert "max_wal_size = 3 x checkpoint_segments" in words


@pytest.mark.requirement("R-VER-01")
def test_what_the_next_version_will_refuse_is_a_note():
    server = make_server(14, changed={"stats_temp_directory": "/run/pg"})
    finding = finding_of("removed-parameters", make_case(server=server))
    assert (finding.severity, finding.answer) == (Severity.NOTE, Answer.FINDING)
    assert finding_of("removed-parameters", make_case(server=make_server(14))).answer is Answer.OK


@pytest.mark.requirement("R-VER-06")
def test_9_5_server_gets_findings_and_no_crash():
    names = ("max_wal_size", "checkpoint_timeout", "shared_buffers", "checkpoint_completion_target", "fsync")
    few = {name: settings_of(13)[name] for name in names}
    few["wal_keep_segments"] = setting("wal_keep_segments", "64")
    server = replace(make_server(13), version="9.5.7", version_num=90507, settings=few)
    case = make_case(server=server)
    answers = {finding.rule: finding for finding in advise(case.inventory, case.evidence, shipped_rules())}
    assert answers["end-of-life"].answer is Answer.FINDING
    assert "pg_xlog" in " ".join(answers["end-of-life"].evidence)
    assert answers["removed-parameters"].answer is Answer.FINDING
    assert answers["shared-buffers"].changes[0].value == "32GB"
    assert answers["work-mem"].answer is Answer.UNKNOWN
    assert answers["autovacuum"].answer is Answer.UNKNOWN


@pytest.mark.requirement("R-VER-02")
@pytest.mark.parametrize("change", versions().defaults, ids=lambda change: change.name)
def test_defaults_changed_where_the_table_says(change):
    def number(text):
        return float(text) if text.lstrip("-").replace(".", "", 1).isdigit() else text

    for major in SUPPORTED_MAJORS:
        row = settings_of(major).get(change.name)
        if row is not None:
            assert number(row.boot_val) == number(change.after if major >= change.since else change.before), major


@pytest.mark.requirement("R-VER-02")
def test_old_defaults_that_were_carried_over_are_found():
    pinned = {"hash_mem_multiplier": "1", "maintenance_io_concurrency": "10", "vacuum_cost_page_miss": "10"}
    finding = finding_of("changed-defaults", make_case(server=make_server(18, changed=pinned)))
    changes = {change.knob: change.value for change in finding.changes}
    assert len(finding.evidence) == 3
    assert changes["hash_mem_multiplier"] == "2"
    assert changes["maintenance_io_concurrency"] == "16"
    assert finding_of("changed-defaults", make_case(server=make_server(13, changed=pinned))).answer is Answer.OK


@pytest.mark.requirement("R-VER-03", "R-VER-05")
@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_additions_are_those_of_real_servers(major):
    parameters = settings_of(major)
    for addition in versions().added:
        for name in addition.names:
            if not name.startswith("pg_"):
                assert (name in parameters) is (major >= addition.since), name
    for change in versions().changed:
        assert change.name in parameters


@pytest.mark.requirement("R-VER-03", "R-VER-05")
def test_later_versions_additions_and_types_are_named():
    words = " ".join(finding_of("new-facilities", make_case(server=make_server(14))).evidence)
    for name in ("shared_memory_size", "pg_stat_io", "huge_pages_status", "io_method", "wal_compression takes"):
        assert name in words
    assert "pg_stat_io" not in " ".join(finding_of("new-facilities", make_case()).evidence)


@pytest.mark.requirement("R-PG-40", "R-VER-15")
@pytest.mark.parametrize("major", [17, 18])
@pytest.mark.parametrize("on", [True, False])
def test_checksums_are_reported_with_the_default_of_the_version(major, on):
    finding = finding_of("data-checksums", make_case(server=make_server(major, data_checksums=on)))
    assert finding.answer is (Answer.OK if on else Answer.FINDING)
    if not on:
        assert "comparison" in " ".join(finding.evidence)


@pytest.mark.requirement("R-VER-12")
def test_names_of_epas_and_extensions_are_not_meant():
    extra = {
        "edb_redwood_date": setting("edb_redwood_date", "on"),
        "edb_dynatune": SettingFact("edb_dynatune", "66", None, "integer", "postmaster", "configuration file"),
        "pg_stat_statements.max": setting("pg_stat_statements.max", "5000"),
    }
    server = make_server(14, flavour="EPAS", extra=extra)
    case = make_case(server=server)
    assert len(advise(case.inventory, case.evidence, shipped_rules())) == len(shipped_rules())
    assert finding_of("removed-parameters", case).answer is Answer.OK


def test_removals_split_by_version():
    gone, leaving = removals({"db_user_namespace": 1, "ssl_ecdh_curve": 1, "work_mem": 1}, 17)
    assert [one.name for one in gone] == ["db_user_namespace"]
    assert [one.name for one in leaving] == ["ssl_ecdh_curve"]


@pytest.mark.requirement("R-VER-08", "R-VER-02")
@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_log_checkpoints_is_asked_for_below_15(major):
    finding = finding_of("log-checkpoints", make_case(server=make_server(major)))
    assert finding.answer is (Answer.FINDING if major < 15 else Answer.OK)
