"""File systems, sectors and encryption below the server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import finding_of, make_case, make_host, make_server
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Severity
from pgdyno.model.inventory import BlockDevice, Memory, Purpose
from storage_case import disk, mount, place, simple_host


def on(filesystem: str = "ext4", **fields: object):
    mounts = (mount("/pgdata", "/dev/sda", filesystem, **fields), mount("/pgwal", "/dev/sda"))
    return simple_host(disk("sda"), mounts=mounts)


@pytest.mark.requirement("R-STO-30", "R-STO-31", "R-INV-10", "CON-32")
def test_type_options_and_block_size_of_the_mount_are_reported():
    finding = finding_of("filesystem", make_case(on()))
    assert finding.answer is Answer.OK
    assert "/pgdata: ext4 (rw,relatime), blocks of 4" in finding.reason
    assert "smaller than a page of 8" in finding.reason
    assert finding.resolutions[0].id == "CON-32"


@pytest.mark.requirement("R-STO-31", "CON-32")
def test_blocks_of_64_kb_on_power_are_noted():
    host = replace(on(block_size=65536), memory=Memory(ram_bytes=1 << 30, page_size=65536))
    finding = finding_of("filesystem", make_case(host))
    assert (finding.answer, finding.severity) == (Answer.FINDING, Severity.NOTE)
    assert "64" in finding.resolutions[0].decided
    assert finding.changes == ()


@pytest.mark.requirement("R-STO-30")
@pytest.mark.parametrize(
    ("filesystem", "options", "severity"),
    [
        ("tmpfs", ("rw",), Severity.CRITICAL),
        ("overlay", ("rw",), Severity.WARNING),
        ("ext4", ("rw", "nobarrier"), Severity.CRITICAL),
        ("ext4", ("rw", "barrier=0"), Severity.CRITICAL),
        ("nfs4", ("rw", "soft"), Severity.CRITICAL),
    ],
)
def test_what_loses_data_is_found(filesystem, options, severity):
    finding = finding_of("filesystem", make_case(on(filesystem, options=options)))
    assert (finding.answer, finding.severity) == (Answer.FINDING, severity)


@pytest.mark.requirement("R-STO-30")
@pytest.mark.parametrize("filesystem", ["ext2", "ext3", "ext4", "xfs"])
def test_no_difference_is_made_between_the_usual_ones(filesystem):
    assert finding_of("filesystem", make_case(on(filesystem))).answer is Answer.OK


def test_a_sandbox_in_memory_is_no_more_than_a_note():
    case = make_case(on("tmpfs"), make_server(disposable=True))
    assert finding_of("filesystem", case).severity is Severity.NOTE


def test_a_block_size_that_could_not_be_read_is_said_to_be_unknown():
    finding = finding_of("filesystem", make_case(on(block_size=Unknown("statvfs was refused"))))
    assert "statvfs was refused" in finding.reason


def test_no_place_is_unknown():
    assert finding_of("filesystem", make_case(make_host())).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-INV-11", "R-STO-31", "CON-33")
@pytest.mark.parametrize(
    ("logical", "physical", "answer"),
    [
        (512, 512, Answer.OK),
        (512, 4096, Answer.OK),
        (4096, 4096, Answer.FINDING),
        (524288, 524288, Answer.UNKNOWN),
    ],
)
def test_sectors_are_bytes(logical, physical, answer):
    host = simple_host(disk("sda", logical_sector=logical, physical_sector=physical))
    finding = finding_of("sector-size", make_case(host))
    assert finding.answer is answer
    assert str(logical) in (finding.reason or finding.current)


@pytest.mark.requirement("R-INV-11")
def test_disks_of_both_kinds_below_one_volume_are_found():
    disks = (disk("sda"), disk("sdb", logical_sector=4096, physical_sector=4096))
    places = (place(Purpose.DATA, "/pgdata/main", ["sda", "sdb"]),)
    finding = finding_of("sector-size", make_case(simple_host(*disks, places=places)))
    assert any("different sizes" in sentence for sentence in finding.evidence)


def encrypted(data: bool, wal: bool):
    crypt = BlockDevice("edb_data_enc", "crypt", ("sda",))
    places = (
        place(
            Purpose.DATA, "/pgdata/main", ["sda"], stack=("edb_data_enc", "sda") if data else ("sda",), encrypted=data
        ),
        place(Purpose.WAL, "/pgwal/pg_wal", ["sdb"], encrypted=wal),
    )
    return make_case(simple_host(disk("sda"), devices=(disk("sda"), disk("sdb"), crypt), places=places))


@pytest.mark.requirement("R-STO-32")
@pytest.mark.parametrize(
    ("data", "wal", "answer"),
    [(False, False, Answer.OK), (True, True, Answer.OK), (True, False, Answer.FINDING), (False, True, Answer.FINDING)],
)
def test_half_an_encryption_is_found(data, wal, answer):
    finding = finding_of("encrypted-volumes", encrypted(data, wal))
    assert finding.answer is answer
    if data:
        assert "edb_data_enc" in " ".join((finding.reason, *finding.evidence))


def test_unread_encryption_is_unknown():
    places = (place(Purpose.DATA, "/p", ["sda"], encrypted=Unknown("lsblk is missing")),)
    finding = finding_of("encrypted-volumes", make_case(simple_host(disk("sda"), places=places)))
    assert finding.answer is Answer.UNKNOWN
    assert "lsblk is missing" in finding.reason
