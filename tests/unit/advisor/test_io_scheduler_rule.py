"""I/O schedulers by type of device, under old names and new."""

from __future__ import annotations

import pytest

from advisor_case import finding_of, make_case
from pgdyno.advisor.rules.io_scheduler import current_name
from pgdyno.errors import UsageError
from pgdyno.model.finding import Answer, ChangeKind, Severity
from storage_case import disk, simple_host

RULE = "io-scheduler"


def judged(*disks):
    return finding_of(RULE, make_case(simple_host(*disks)))


@pytest.mark.requirement("R-STO-27", "CON-25")
@pytest.mark.parametrize("storage", ["nvme", "virtio", "fcp", "dasd"])
def test_bfq_on_devices_that_order_by_themselves_becomes_none(storage):
    finding = judged(disk("d0", storage, scheduler="bfq"))
    assert finding.answer is Answer.FINDING
    (change,) = finding.changes
    assert (change.kind, change.knob, change.value, change.device) == (ChangeKind.BLOCK, "scheduler", "none", "/dev/d0")
    assert change.undo == ("echo bfq > /sys/block/d0/queue/scheduler",)
    assert finding.resolutions[0].id == "CON-25"


@pytest.mark.requirement("R-STO-27", "CON-25")
def test_bfq_on_a_disk_that_turns_becomes_mq_deadline_and_stays_an_experiment():
    finding = judged(disk("sda", "scsi", scheduler="bfq", rotational=True))
    assert finding.changes[0].value == "mq-deadline"
    assert any("experiment" in text for text in finding.alternatives)


@pytest.mark.requirement("R-STO-27")
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_none_and_deadlines_are_in_order(scheduler):
    assert judged(disk("nvme0n1", "nvme", scheduler=scheduler)).answer is Answer.OK


@pytest.mark.requirement("CON-25")
def test_a_local_disk_that_turns_gets_deadlines_in_place_of_no_order_at_all():
    finding = judged(disk("sda", "sata", scheduler="none", rotational=True))
    assert (finding.answer, finding.severity) == (Answer.FINDING, Severity.NOTE)
    assert finding.changes[0].value == "mq-deadline"
    for other in (disk("sda", "sata", scheduler="none", rotational=False), disk("sda", "scsi", scheduler="none")):
        assert judged(other).answer is Answer.OK  # a disk that is called SCSI may be a virtual one
    old = judged(disk("sda", "sas", scheduler="noop", schedulers=("noop", "deadline", "cfq")))
    assert old.changes[0].value == "deadline"


@pytest.mark.requirement("R-STO-28")
@pytest.mark.parametrize(
    ("old", "new"), [("noop", "none"), ("deadline", "mq-deadline"), ("cfq", "bfq"), ("as", None), ("kyber", "kyber")]
)
def test_old_names_are_mapped(old, new):
    assert current_name(old) == new


@pytest.mark.requirement("R-STO-27", "R-STO-28")
def test_unknown_names_are_refused():
    with pytest.raises(UsageError, match='"elevator-9" is not known'):
        current_name("elevator-9")
    finding = judged(disk("sda", "scsi", scheduler="elevator-9"))
    assert finding.answer is Answer.UNKNOWN
    assert "elevator-9" in finding.reason


@pytest.mark.requirement("R-STO-28", "CON-25")
@pytest.mark.parametrize(("old", "proposed"), [("cfq", "noop"), ("as", "noop"), ("anticipatory", "noop")])
def test_an_old_kernel_is_given_the_names_that_it_has(old, proposed):
    offered = ("noop", "deadline", "cfq")
    finding = judged(disk("sda", "fcp", scheduler=old, schedulers=offered))
    assert finding.changes[0].value == proposed


def test_only_the_disk_that_is_wrong_is_changed():
    finding = judged(disk("nvme0n1", "nvme", scheduler="none"), disk("nvme1n1", "nvme", scheduler="bfq"))
    assert [change.device for change in finding.changes] == ["/dev/nvme1n1"]
