"""Rules on checkpoints: sizes from the measured rate, silent without pressure, never more than the disk holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import GB, MB, finding_of, make_case, make_host, make_server
from pgdyno.advisor.rulebook import contradictions, load_rules
from pgdyno.advisor.wal_pressure import cap_bytes, power_of_two, wanted_bytes
from pgdyno.model.evidence import WAL_RATE_BY_LOG, Checkpoint, LogEvidence, Settled, Statistics, Window, WorkloadClass
from pgdyno.model.facts import SUPPORTED_MAJORS, Unknown
from pgdyno.model.finding import Answer, Cost, ProofState, Severity
from pgdyno.model.inventory import Mount, Place, Purpose

SOURCE_RATE = 345965.6 * 1024
"""The WAL device of the 2023 guide: wkB/s of edb_logs_enc before the change."""
HINT = 'HINT:  Consider increasing the configuration parameter "max_wal_size".'
QUOTE = "LOG:  checkpoints are occurring too frequently (10 seconds apart)"


def pressed_log(checkpoints=()):
    return LogEvidence(
        files=("server.log",),
        lines=100,
        checkpoints=checkpoints,
        starts={"wal": 12, "time": 1},
        too_frequent_s=(10, 9),
        hints=(HINT,),
        quotes={"too_frequent": QUOTE},
    )


def wal_host(size, free=None):
    return make_host(
        places=(
            Place(Purpose.DATA, "/data", mount_point="/"),
            Place(Purpose.WAL, "/wal/pg_wal", mount_point="/wal"),
        ),
        mounts=(
            Mount("/", "/dev/sda1", "ext4", size_bytes=1000 * GB, free_bytes=500 * GB),
            Mount("/wal", "/dev/sdb1", "xfs", size_bytes=size, free_bytes=free or size),
        ),
    )


def pressed(server=None, host=None, rate=SOURCE_RATE, **evidence):
    values = {"log": pressed_log(), "wal_rate_bytes_s": rate, "wal_rate_source": "the WAL device"}
    return make_case(host, server or make_server(14), **{**values, **evidence})


def value_of(finding, knob):
    return next(change.value for change in finding.changes if change.knob == knob)


@pytest.mark.requirement("R-PG-03", "R-PG-04", "R-PG-09", "CON-18", "CON-19")
def test_rate_of_the_source_gives_its_value_with_a_reload():
    finding = finding_of("max-wal-size", pressed())
    assert value_of(finding, "max_wal_size") == "256GB"
    assert (finding.cost, finding.severity) == (Cost.RELOAD, Severity.WARNING)
    assert {resolution.id for resolution in finding.resolutions} == {"CON-18", "CON-19"}
    assert "reload" in next(one.decided for one in finding.resolutions if one.id == "CON-18")


@pytest.mark.requirement("R-PG-01", "R-PG-03")
def test_finding_quotes_the_log():
    evidence = " ".join(finding_of("max-wal-size", pressed()).evidence)
    assert QUOTE in evidence
    assert HINT in evidence


@pytest.mark.requirement("R-PG-04", "R-VER-07")
def test_formula_changed_at_11():
    assert wanted_bytes(1.0, 300, 0.9, 18) == wanted_bytes(1.0, 300, 0.9, 11) == pytest.approx(570)
    assert wanted_bytes(1.0, 300, 0.5, 10) == pytest.approx(750)
    old = make_server(13, changed={"checkpoint_completion_target": "0.9"}, version_num=100023)
    assert "times 2.9 makes" in " ".join(finding_of("max-wal-size", pressed(old)).evidence)


@pytest.mark.requirement("R-PG-06", "CON-19")
def test_slower_platform_needs_less():
    small = finding_of("max-wal-size", pressed(rate=20 * MB))
    assert value_of(small, "max_wal_size") == "16GB"


@pytest.mark.requirement("R-PG-05")
@pytest.mark.parametrize(("size", "expected"), [(512 * GB, "256GB"), (503 * GB, "256GB"), (10 * GB, "5GB")])
def test_wal_file_system_caps_it(size, expected):
    finding = finding_of("max-wal-size", pressed(host=wal_host(size)))
    assert value_of(finding, "max_wal_size") == expected
    assert any("capped" in text for text in finding.evidence) is (size == 10 * GB)


@pytest.mark.requirement("R-PG-05")
def test_file_system_that_is_too_small_for_more_is_said():
    finding = finding_of("max-wal-size", pressed(host=wal_host(1 * GB)))
    assert finding.answer is Answer.FINDING
    assert not finding.changes
    assert "larger file system" in finding.proposed


@pytest.mark.requirement("R-PG-05")
def test_unknown_file_system_is_a_doubt_and_not_a_cap():
    doubts = finding_of("max-wal-size", pressed()).doubts
    assert any("file system is unknown" in doubt for doubt in doubts)


@pytest.mark.requirement("R-PG-07")
def test_recovery_is_estimated():
    assert any("replayed" in text for text in finding_of("max-wal-size", pressed()).evidence)
    long = make_server(18, changed={"checkpoint_timeout": "3600", "max_wal_size": str(1024 * 1024)})
    warning = finding_of("recovery-time", make_case(server=long, wal_rate_bytes_s=100 * MB))
    assert (warning.answer, warning.title) == (Answer.FINDING, "A crash can leave 1:54 h of work to replay")
    assert finding_of("recovery-time", make_case(wal_rate_bytes_s=100 * MB)).answer is Answer.OK


@pytest.mark.requirement("R-PG-08")
def test_verification_is_that_the_hint_is_gone():
    assert "too frequently" in finding_of("max-wal-size", pressed()).verify


@pytest.mark.requirement("R-PG-03")
def test_a_log_without_a_checkpoint_is_no_sign_of_calm():
    quiet = LogEvidence(("server.log",), 40)
    finding = finding_of("max-wal-size", make_case(log=quiet))
    assert finding.answer is Answer.UNKNOWN
    assert "the log shows no checkpoint" in finding.reason
    computed = finding_of("max-wal-size", make_case(log=quiet, wal_rate_bytes_s=20 * MB))
    assert value_of(computed, "max_wal_size") == "16GB"
    hidden = Statistics(Window(60, "sampled"), checkpoints_timed=Unknown("no right"), checkpoints_requested=0)
    assert finding_of("max-wal-size", make_case(statistics=hidden)).answer is Answer.UNKNOWN
    none = Statistics(Window(60, "sampled"), checkpoints_timed=0, checkpoints_requested=0)
    assert finding_of("max-wal-size", make_case(log=quiet, statistics=none)).answer is Answer.OK


@pytest.mark.requirement("R-PG-01")
def test_a_rate_of_the_log_from_before_a_change_asks_for_no_other_change():
    changed = LogEvidence(("server.log",), 40, changed={"max_wal_size": "2026-11-24 08:00:00 UTC"})
    watched = make_case(log=changed, wal_rate_bytes_s=200 * MB, wal_rate_source="the window")
    assert finding_of("max-wal-size", watched).answer is Answer.FINDING
    earlier = make_case(log=changed, wal_rate_bytes_s=200 * MB, wal_rate_source=WAL_RATE_BY_LOG)
    assert finding_of("max-wal-size", earlier).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-PG-01")
def test_the_log_is_quoted_where_wal_began_a_checkpoint():
    quotes = {name: f"LOG:  checkpoint starting: {cause}" for name, cause in
              (("checkpoint_starts", "shutdown"), ("wal_start", "wal"))}  # fmt: skip
    starts = {"wal": 1, "shutdown": 1}
    log = LogEvidence(("server.log",), 9, starts=starts, too_frequent_s=(10,), quotes=quotes)
    evidence = " ".join(finding_of("max-wal-size", make_case(log=log)).evidence)
    assert "checkpoint starting: wal" in evidence
    assert "shutdown" not in evidence
    assert "once that checkpoints are occurring too frequently, 10 seconds apart" in evidence


@pytest.mark.requirement("R-PG-03")
def test_silent_without_pressure():
    calm = LogEvidence(files=("server.log",), lines=100, starts={"time": 12, "wal": 1})
    assert finding_of("max-wal-size", make_case(log=calm, wal_rate_bytes_s=SOURCE_RATE)).answer is Answer.OK
    counters = Statistics(Window(60, "sampled"), checkpoints_timed=3, checkpoints_requested=1)
    assert finding_of("max-wal-size", make_case(statistics=counters)).answer is Answer.OK


@pytest.mark.requirement("R-PG-03")
def test_counters_show_pressure_too():
    counters = Statistics(Window(60, "sampled"), checkpoints_timed=0, checkpoints_requested=5, wal_bytes_s=20 * MB)
    finding = finding_of("max-wal-size", make_case(statistics=counters, wal_rate_bytes_s=20 * MB))
    assert value_of(finding, "max_wal_size") == "16GB"


def test_two_requested_checkpoints_are_no_pressure():
    counters = Statistics(Window(60, "sampled"), checkpoints_timed=0, checkpoints_requested=2, wal_bytes_s=20 * MB)
    assert finding_of("max-wal-size", make_case(statistics=counters)).answer is Answer.OK


def test_nothing_known_is_unknown():
    assert finding_of("max-wal-size", make_case()).answer is Answer.UNKNOWN


def test_hint_without_a_rate_says_how_to_measure():
    unknown = Unknown("no window was measured")
    finding = finding_of("max-wal-size", pressed(rate=unknown))
    assert finding.answer is Answer.FINDING
    assert not finding.changes
    assert "pg_wal_lsn_diff" in " ".join(finding.evidence)


def test_value_that_is_enough_is_not_lowered():
    server = make_server(18, changed={"max_wal_size": str(512 * 1024)})
    finding = finding_of("max-wal-size", pressed(server))
    assert not finding.changes


def test_standby_is_left_alone():
    for rule in ("max-wal-size", "checkpoint-timeout", "checkpoint-completion-target", "recovery-time"):
        finding = finding_of(rule, pressed(make_server(13, in_recovery=True)))
        assert finding.answer is Answer.NOT_APPLICABLE


@given(
    rate=st.floats(1, 1e10),
    timeout=st.floats(30, 86400),
    target=st.floats(0, 1),
    size=st.floats(1 * MB, 1e15),
)
@pytest.mark.requirement("R-PG-04", "R-PG-05")
def test_sizes_hold_what_they_must(rate, timeout, target, size):
    wanted = wanted_bytes(rate, timeout, target, 18)
    proposal = power_of_two(wanted)
    assert wanted <= proposal
    assert proposal & (proposal - 1) == 0
    cap = cap_bytes(size, proposal)
    assert (cap if cap is not None else proposal) <= 0.55 * size


@pytest.mark.requirement("R-PG-21", "R-VER-02", "CON-20")
@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_completion_target_is_for_13_only(major):
    finding = finding_of("checkpoint-completion-target", make_case(server=make_server(major)))
    assert finding.answer is (Answer.FINDING if major == 13 else Answer.OK)
    assert finding.resolutions[0].id == "CON-20"
    assert f"version {major}" in finding.resolutions[0].decided


def test_completion_target_of_somebody_is_left():
    server = make_server(13, changed={"checkpoint_completion_target": "0.7"})
    assert finding_of("checkpoint-completion-target", make_case(server=server)).answer is Answer.OK


@pytest.mark.requirement("R-PG-11")
def test_longer_timeout_is_an_experiment_for_loads_that_write():
    case = make_case(wal_rate_bytes_s=1 * MB, workload=WorkloadClass.OLTP)
    finding = finding_of("checkpoint-timeout", case)
    assert (value_of(finding, "checkpoint_timeout"), finding.state) == ("15min", ProofState.NEEDS_TEST)
    assert finding.depth is finding_of("max-wal-size", case).depth  # the source has them side by side
    assert "crash recovery" in " ".join(finding.evidence)
    reads = make_case(wal_rate_bytes_s=1 * MB, workload=WorkloadClass.READ_ONLY)
    assert finding_of("checkpoint-timeout", reads).answer is Answer.OK


@pytest.mark.requirement("R-PG-11")
def test_longer_timeout_needs_room_for_its_wal():
    case = make_case(wal_host(20 * GB), wal_rate_bytes_s=100 * MB, workload=WorkloadClass.OLTP)
    assert finding_of("checkpoint-timeout", case).answer is Answer.OK


@pytest.mark.requirement("R-PG-10")
def test_burst_of_full_pages_is_explained():
    counters = Statistics(Window(60, "sampled"), full_page_image_share=0.8, wal_bytes_per_commit=9000.0)
    finding = finding_of("full-page-burst", make_case(statistics=counters))
    assert finding.title == "Full-page images are up to 80 % of the WAL"
    assert "whole page" in finding.why
    rare = Statistics(Window(60, "sampled"), full_page_image_share=0.1)
    assert finding_of("full-page-burst", make_case(statistics=rare)).answer is Answer.OK


@pytest.mark.requirement("CON-18", "CON-19", "CON-20")
def test_contradictions_name_a_rule_that_decides():
    for name in ("CON-18", "CON-19", "CON-20"):
        row = contradictions()[name]
        assert row.decided_by in ("max-wal-size", "checkpoint-completion-target")


@pytest.mark.requirement("R-PG-11")
def test_longer_timeout_brings_the_wal_size_that_it_needs():
    server = make_server(changed={"max_wal_size": str(16 * 1024)})  # enough for 5 min at this rate
    case = make_case(server=server, wal_rate_bytes_s=20 * MB, workload=WorkloadClass.OLTP)
    finding = finding_of("checkpoint-timeout", case)
    assert {change.knob: change.value for change in finding.changes} == {
        "checkpoint_timeout": "15min",
        "max_wal_size": "64GB",
    }


@pytest.mark.requirement("R-PG-03")
def test_a_rate_alone_tells_what_starts_the_checkpoints():
    finding = finding_of("max-wal-size", make_case(wal_rate_bytes_s=20 * MB))
    assert value_of(finding, "max_wal_size") == "16GB"
    assert "no counters" in " ".join(finding.doubts)
    assert finding_of("max-wal-size", make_case(wal_rate_bytes_s=0.1 * MB)).answer is Answer.OK
    assert finding_of("max-wal-size", make_case()).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-PG-11")
def test_wal_size_comes_before_the_timeout():
    finding = finding_of("checkpoint-timeout", pressed(workload=WorkloadClass.OLTP))
    assert finding.answer is Answer.OK
    assert "comes first" in finding.reason


@pytest.mark.requirement("R-PG-05")
def test_cap_is_a_round_size():
    assert cap_bytes(10.7 * GB, 256 * GB) == 5 * GB
    assert cap_bytes(1.1 * GB, 256 * GB) == 512 * MB


@pytest.mark.requirement("R-PG-05")
def test_wal_beside_the_data_is_capped_by_the_free_space():
    host = make_host(
        places=(Place(Purpose.DATA, "/data", mount_point="/"), Place(Purpose.WAL, "/data/pg_wal", mount_point="/")),
        mounts=(Mount("/", "/dev/sda1", "ext4", size_bytes=1000 * GB, free_bytes=40 * GB),),
    )
    assert value_of(finding_of("max-wal-size", pressed(host=host)), "max_wal_size") == "20GB"


@pytest.mark.requirement("R-PG-03")
def test_starts_by_wal_are_pressure_without_a_hint():
    log = LogEvidence(("server.log",), 9, starts={"wal": 5, "time": 1})
    finding = finding_of("max-wal-size", make_case(log=log, wal_rate_bytes_s=20 * MB))
    assert value_of(finding, "max_wal_size") == "16GB"


@pytest.mark.requirement("R-PG-04")
def test_mean_since_the_reset_decides_no_value():
    counters = Statistics(Window(1e6, "since the statistics were reset"), wal_bytes_s=20 * MB)
    finding = finding_of("max-wal-size", pressed(rate=Unknown("no window was watched"), statistics=counters))
    assert not finding.changes


SETTLED = Settled(started_at=1_000.0, loaded_at=5_000.0)


@pytest.mark.parametrize(
    ("began", "settled", "answer"),
    [
        (6_000, SETTLED, Answer.FINDING),
        (4_000, SETTLED, Answer.UNKNOWN),  # counted with whatever value stood then
        (4_000, replace(SETTLED, log_from=900.0), Answer.FINDING),  # the log shows that the reload changed nothing
        (4_000, replace(SETTLED, log_from=900.0, changed={"max_wal_size": 5_000.0}), Answer.UNKNOWN),
        (4_000, replace(SETTLED, log_from=900.0, changed={"work_mem": 5_000.0}), Answer.FINDING),
        (500, replace(SETTLED, log_from=900.0), Answer.UNKNOWN),  # before the server started
    ],
)
def test_counters_count_from_the_last_change_of_what_they_judge(began, settled, answer):
    window = Window(60, "since the statistics were reset", datetime.fromtimestamp(began, UTC).isoformat())
    counters = Statistics(window, checkpoints_timed=0, checkpoints_requested=50)
    finding = finding_of("max-wal-size", make_case(statistics=counters, settled=settled))
    assert finding.answer is answer
    if answer is Answer.UNKNOWN:
        assert "may have had another value" in finding.reason
        assert "the counters began at 1970-01-01 0" in finding.reason
        assert "+00:00" not in finding.reason, "a moment is written in one way, as the log writes it"
        assert "--window" in finding.reason


@pytest.mark.parametrize(
    ("distance", "answer"),
    [
        pytest.param(36 * MB, Answer.UNKNOWN, id="as the size before asked for"),
        pytest.param(None, Answer.UNKNOWN, id="one message, and its checkpoint is not over"),
        pytest.param(8 * GB, Answer.FINDING, id="as the size in force asks for"),
    ],
)
def test_checkpoints_that_the_size_before_started_do_not_speak_of_the_new_one(distance, answer):
    def done(at, distance):
        return Checkpoint(at, "wal", 2, 0.0, distance_bytes=distance)

    log = replace(
        pressed_log((done("2026-11-24 07:59:00 UTC", 9 * GB), done("2026-11-24 08:00:04 UTC", distance))),
        starts={"wal": 1},
        too_frequent_s=(3,),
        changed={"max_wal_size": "2026-11-24 08:00:00 UTC"},
    )
    if distance is None:
        log = replace(log, checkpoints=log.checkpoints[:1])
    server = make_server(15, changed={"max_wal_size": str(16 * 1024)})
    finding = finding_of("max-wal-size", pressed(server, log=log, rate=80 * MB, wal_rate_source=WAL_RATE_BY_LOG))
    assert finding.answer is answer


def test_log_without_a_checkpoint_since_the_change_says_what_it_waits_for():
    log = LogEvidence(("l",), 9, earlier={"too_frequent": 4}, changed={"max_wal_size": "2026-11-21 19:00:00 UTC"})
    finding = finding_of("max-wal-size", make_case(log=log))
    assert finding.answer is Answer.UNKNOWN
    assert "max_wal_size changed at 2026-11-21 19:00:00 UTC" in finding.reason
    assert "no checkpoint since" in finding.reason


@pytest.mark.requirement("R-ADV-14")
def test_wal_is_placed_before_its_size_is_chosen():
    rules = [rule.id for rule in load_rules()]
    assert rules.index("wal-placement") < rules.index("max-wal-size")
    assert "wal-placement" in finding_of("max-wal-size", pressed()).after


def test_the_proposal_leaves_room_for_min_wal_size() -> None:
    """With max_wal_size = 32MB beside the default of 80MB, 64MB were proposed, which apply refuses."""
    changed = {"max_wal_size": "32", "min_wal_size": "80"}
    finding = finding_of("max-wal-size", pressed(server=make_server(18, changed=changed), rate=10_000.0))
    assert value_of(finding, "max_wal_size") == "128MB"
    assert any("that min_wal_size = 80 MB leaves" in text for text in finding.evidence)
