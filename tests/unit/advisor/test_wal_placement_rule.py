"""Data files and log on different disks: found by disks, not by mount points, weighed by commits."""

from __future__ import annotations

import pytest

from advisor_case import finding_of, make_case
from pgdyno.advisor.rules.wal_placement import move_commands
from pgdyno.model.evidence import SINCE_RESET, Statistics, Window
from pgdyno.model.finding import Answer, ChangeKind, Cost, Severity
from pgdyno.model.inventory import Purpose
from storage_case import dark_place, disk, lvm_host, mount, place, simple_host

RULE = "wal-placement"


def rate(commits_s: float, write_share: float = 0.5) -> Statistics:
    return Statistics(Window(10, "sampled"), commits_s=commits_s, write_share=write_share)


@pytest.mark.requirement("R-STO-01", "R-INV-09", "CON-24")
def test_volumes_that_share_disks_are_found_although_mounts_differ():
    finding = finding_of(RULE, make_case(lvm_host()))
    assert (finding.answer, finding.cost) == (Answer.FINDING, Cost.RESTART)
    assert "vda, vdb" in finding.evidence[0]
    assert any("/edb_data and /edb_logs differ" in sentence for sentence in finding.evidence)
    assert [resolution.id for resolution in finding.resolutions] == ["CON-24"]
    assert max(effect.high for effect in finding.effects) == 0.10
    assert min(effect.low for effect in finding.effects if effect.low is not None) == 0.0


def test_other_disks_are_in_order_and_the_storage_server_is_named_as_unseen():
    finding = finding_of(RULE, make_case(simple_host(disk("sda"), disk("sdb"))))
    assert finding.answer is Answer.OK
    assert "pgdyno disks" in finding.reason


@pytest.mark.requirement("R-STO-02")
def test_the_order_of_preference_is_said():
    finding = finding_of(RULE, make_case(lvm_host()))
    preference = next(text for text in finding.alternatives if text.startswith("Preference"))
    assert preference.index("storage server") < preference.index("extent pool") < preference.index("another disk")


def test_one_file_system_is_enough_to_know_even_when_its_disks_are_not():
    places = (
        dark_place(Purpose.DATA, "/srv/main", "/srv"),
        dark_place(Purpose.WAL, "/srv/main/pg_wal", "/srv"),
    )
    assert finding_of(RULE, make_case(simple_host(disk("sda"), places=places))).answer is Answer.FINDING


def test_unknown_disks_below_two_mounts_are_unknown():
    places = (
        dark_place(Purpose.DATA, "/a/main", "/a"),
        dark_place(Purpose.WAL, "/b/pg_wal", "/b"),
    )
    finding = finding_of(RULE, make_case(simple_host(disk("sda"), places=places)))
    assert finding.answer is Answer.UNKNOWN
    assert "sysfs could not be read" in finding.reason


@pytest.mark.requirement("R-STO-04")
@pytest.mark.parametrize(
    ("statistics", "severity"),
    [
        (rate(5000), Severity.WARNING),
        (rate(100), Severity.ADVICE),
        (rate(2), Severity.NOTE),
        (rate(5000, write_share=0), Severity.NOTE),
    ],
)
def test_more_commits_weigh_more(statistics, severity):
    finding = finding_of(RULE, make_case(lvm_host(), statistics=statistics))
    assert finding.severity is severity
    assert any("commits" in sentence for sentence in finding.evidence)


@pytest.mark.parametrize(
    ("commits_s", "severity"), [(5000, Severity.WARNING), (100, Severity.ADVICE), (2, Severity.ADVICE)]
)
def test_a_mean_with_idle_days_in_it_does_not_say_that_commits_are_few(commits_s, severity):
    mean = Statistics(Window(8 * 86_400, SINCE_RESET), commits_s=commits_s, write_share=0.5)
    finding = finding_of(RULE, make_case(lvm_host(), statistics=mean))
    assert finding.severity is severity
    assert "idle times included" in " ".join(finding.evidence)
    idle = Statistics(Window(8 * 86_400, SINCE_RESET), commits_s=commits_s, write_share=0.0)
    assert finding_of(RULE, make_case(lvm_host(), statistics=idle)).severity is Severity.NOTE


@pytest.mark.parametrize(("first", "again"), [(47.1 / 60, 49.7 / 60), (812.0, 868.0), (5000.0, 5301.0)])
def test_two_looks_at_the_same_server_say_the_same(first, again):
    texts = [finding_of(RULE, make_case(lvm_host(), statistics=rate(commits))) for commits in (first, again)]
    assert texts[0] == texts[1]
    assert "times a second" in " ".join(texts[0].evidence)


@pytest.mark.requirement("R-STO-03")
def test_the_move_stops_moves_links_and_starts_and_new_clusters_get_initdb():
    finding = finding_of(RULE, make_case(lvm_host()))
    (change,) = finding.changes
    assert change.kind is ChangeKind.MANUAL
    assert [command.split()[0] for command in change.commands] == ["test", "readlink", "pg_ctl", "mv", "ln", "pg_ctl"]
    assert any("initdb --waldir=" in text for text in finding.alternatives)


def test_a_mounted_file_system_on_other_disks_is_proposed_as_the_place():
    data, spare = disk("sda"), disk("sdb")
    mounts = (mount("/pgdata", "/dev/sda"), mount("/spare", "/dev/sdb"))
    places = (
        place(Purpose.DATA, "/pgdata/main", ["sda"], mount_point="/pgdata"),
        place(Purpose.WAL, "/pgdata/main/pg_wal", ["sda"], mount_point="/pgdata"),
    )
    host = simple_host(data, mounts=mounts, places=places, devices=(data, spare))
    assert finding_of(RULE, make_case(host)).changes[0].value == "/spare/pg_wal"


def test_a_log_that_is_a_mount_point_is_moved_by_hand():
    data = disk("sda")
    places = (
        place(Purpose.DATA, "/pgdata/main", ["sda"], mount_point="/pgdata"),
        place(Purpose.WAL, "/pgdata/main/pg_wal", ["sda"], mount_point="/pgdata/main/pg_wal"),
    )
    (change,) = finding_of(RULE, make_case(simple_host(data, places=places))).changes
    assert (change.kind, change.commands) == (ChangeKind.MANUAL, ())


def test_many_shared_disks_lower_the_confidence():
    names = [f"sd{letter}" for letter in "abcdefgh"]
    places = (
        place(Purpose.DATA, "/a/main", names, mount_point="/a"),
        place(Purpose.WAL, "/b/pg_wal", names, mount_point="/b"),
    )
    finding = finding_of(RULE, make_case(simple_host(disk("sda"), places=places)))
    assert any("8 disks" in doubt for doubt in finding.doubts)


def test_paths_with_spaces_are_quoted():
    there, back = move_commands("/my data/main", "/new place/wal")
    assert there[0] == "test -w '/new place' -a ! -e '/new place/wal'"
    assert "'/my data/main/pg_wal'" in there[1]
    assert back[2] == "mv '/new place/wal' \"$(cat '/new place/wal.was')\""


def test_a_sandbox_in_memory_has_no_disks_to_part():
    places = (
        place(Purpose.DATA, "/dev/shm/x/data", [], mount_point="/dev/shm"),
        place(Purpose.WAL, "/dev/shm/x/data/pg_wal", [], mount_point="/dev/shm"),
    )
    host = simple_host(disk("sda"), places=places, mounts=(mount("/dev/shm", "tmpfs", "tmpfs"),))
    assert finding_of(RULE, make_case(host)).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-STO-01")
def test_a_tablespace_on_the_disks_of_the_log_is_found_too():
    places = (
        place(Purpose.DATA, "/pgdata/main", ["sda"], mount_point="/pgdata"),
        place(Purpose.WAL, "/pgwal/pg_wal", ["sdb"], mount_point="/pgwal"),
        place(Purpose.TABLESPACE, "/hot/data", ["sdb"], mount_point="/hot", name="hot"),
    )
    finding = finding_of(RULE, make_case(simple_host(disk("sda"), disk("sdb"), places=places)))
    assert finding.answer is Answer.FINDING
    assert finding.evidence[0] == "Tablespace hot and the log /pgwal/pg_wal lie on sdb."
