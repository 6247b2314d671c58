"""What should not share a file system or disk with the data files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import finding_of, make_case
from pgdyno.model.finding import Answer
from pgdyno.model.inventory import Purpose, Virtualization
from storage_case import disk, mount, place, simple_host


@pytest.mark.requirement("R-STO-05")
def test_a_data_directory_on_the_root_file_system_is_found():
    places = (place(Purpose.DATA, "/var/lib/pg", ["sda"], mount_point="/"),)
    host = simple_host(disk("sda"), places=places, mounts=(mount("/", "/dev/sda1"),))
    finding = finding_of("data-on-root", make_case(host))
    assert finding.answer is Answer.FINDING
    assert "/var/lib/pg lies on the file system of /" in finding.evidence[0]


def test_data_apart_from_the_root_is_in_order():
    assert finding_of("data-on-root", make_case(simple_host(disk("sda")))).answer is Answer.OK


def test_inside_a_container_the_root_says_nothing():
    places = (place(Purpose.DATA, "/data", ["sda"], mount_point="/"),)
    host = simple_host(disk("sda"), places=places, virtualization=Virtualization("KVM", container="docker"))
    assert finding_of("data-on-root", make_case(host)).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-STO-05")
@pytest.mark.parametrize(("backup", "answer"), [("sda", Answer.FINDING), ("sdb", Answer.OK)])
def test_a_backup_on_the_disks_that_it_protects_is_found(backup, answer):
    places = (
        place(Purpose.DATA, "/pgdata/main", ["sda"], mount_point="/pgdata"),
        place(Purpose.BACKUP, "/backup", [backup]),
    )
    assert finding_of("backup-placement", make_case(simple_host(disk("sda"), places=places))).answer is answer


@pytest.mark.requirement("R-STO-05")
def test_the_tool_that_names_the_backup_is_told():
    places = (
        place(Purpose.DATA, "/pgdata/main", ["sda"], mount_point="/pgdata"),
        replace(place(Purpose.BACKUP, "/repo", ["sda"]), name="pgBackRest"),
    )
    finding = finding_of("backup-placement", make_case(simple_host(disk("sda"), places=places)))
    assert finding.evidence[0] == "/repo (pgBackRest) shares sda with /pgdata/main."


def test_an_unknown_backup_target_is_unknown():
    assert finding_of("backup-placement", make_case(simple_host(disk("sda")))).answer is Answer.UNKNOWN
