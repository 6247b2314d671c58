"""Read-ahead: by who reads ahead and by access pattern, at the top of the stack, in the right units."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import finding_of, make_case, make_server
from pgdyno.advisor.block_stack import automatic_read_ahead_kb
from pgdyno.advisor.rules.read_ahead import SWEEP_KB, ReadAhead, Top, change_of, policy
from pgdyno.model.evidence import Statistics, Window, WorkloadClass
from pgdyno.model.finding import Answer, ChangeKind, ProofState
from pgdyno.model.inventory import BlockDevice, Purpose
from storage_case import DATA, captured_volumes, disk, lvm_host, place, simple_host

RULE = "read-ahead"


@pytest.mark.requirement("R-STO-22", "R-STO-24", "CON-06")
def test_a_volume_without_read_ahead_is_switched_to_auto():
    finding = finding_of(RULE, make_case(lvm_host(read_ahead="0", effective_read_ahead_kb=0)))
    assert finding.answer is Answer.FINDING
    (change,) = finding.changes
    assert (change.kind, change.knob, change.value, change.current) == (ChangeKind.BLOCK, "read_ahead_kb", "512", "0")
    assert change.device == "/dev/mapper/edbvg-edb_data"
    assert change.commands == ("lvchange -r auto /dev/edbvg/edb_data",)
    assert change.undo == ("lvchange -r 0 /dev/edbvg/edb_data",)
    (until_boot,) = finding.alternatives
    assert "blockdev --setra 1024 /dev/edbvg/edb_data" in until_boot
    assert "1024 sectors of 512 bytes are 512 KiB" in until_boot
    assert [resolution.id for resolution in finding.resolutions] == ["CON-06"]


@pytest.mark.requirement("R-STO-22", "R-STO-24")
def test_a_disk_without_read_ahead_gets_the_kernels_own_value_in_sectors():
    finding = finding_of(RULE, make_case(simple_host(disk("sda", read_ahead_kb=0))))
    (change,) = finding.changes
    assert change.device == "/dev/sda"
    assert change.commands == ("blockdev --setra 256 /dev/sda",)
    assert change.undo == ("blockdev --setra 0 /dev/sda",)


@pytest.mark.requirement("R-STO-25")
def test_a_disk_at_0_below_a_volume_that_reads_ahead_does_not_count():
    host = lvm_host()
    lower = tuple(replace(one, read_ahead_kb=0) if one.kind == "disk" else one for one in host.devices)
    finding = finding_of(RULE, make_case(replace(host, devices=lower)))
    assert finding.answer is Answer.OK
    assert "/dev/edbvg/edb_data below /edb_data/main: 512 KiB" in finding.reason


@pytest.mark.requirement("R-STO-25")
def test_disks_that_read_ahead_below_a_volume_at_0_do_not_count():
    finding = finding_of(RULE, make_case(lvm_host(read_ahead="0", effective_read_ahead_kb=0)))
    assert finding.answer is Answer.FINDING
    assert any("do not count" in sentence for sentence in finding.evidence)


@pytest.mark.requirement("R-STO-25", "R-INV-09")
def test_auto_is_two_full_stripes_as_lvm_printed_it():
    data, logs = captured_volumes()
    assert automatic_read_ahead_kb(data.stripes, data.stripe_bytes) == data.effective_read_ahead_kb == 512
    assert automatic_read_ahead_kb(logs.stripes, logs.stripe_bytes) == logs.effective_read_ahead_kb == 128
    assert "auto 512.00k" in (DATA / "lvs_before.txt").read_text()
    assert "    0k      0k" in (DATA / "lvs_after.txt").read_text()


@given(stripes=st.integers(1, 64), stripe_kb=st.sampled_from([4, 16, 64, 128, 256, 512]))
def test_auto_is_never_below_the_kernels_default_and_holds_full_stripes(stripes, stripe_kb):
    ahead = automatic_read_ahead_kb(stripes, stripe_kb * 1024)
    assert ahead >= 128
    assert ahead == 128 or ahead % (stripes * stripe_kb) == 0


@given(st.integers(0, 1 << 16))
def test_both_commands_mean_the_same_bytes(kb):
    data, _ = captured_volumes()
    top = Top("/p", disk("dm-0"), data, 512)
    plain = Top("/p", disk("sda"), None, 128)
    volume = change_of(top, kb).commands[0].split()[2]
    sectors = change_of(plain, kb).commands[0].split()[2]
    assert int(volume) * 512 == int(sectors) * 512 == kb * 1024


@pytest.mark.requirement("R-STO-23", "CON-06")
@pytest.mark.parametrize(
    ("dbms", "direct", "random", "answer"),
    [
        ("db2", False, False, ReadAhead.OFF),
        ("Informix", False, True, ReadAhead.OFF),
        ("PostgreSQL", False, False, ReadAhead.ON),
        ("EPAS", False, False, ReadAhead.ON),
        ("PostgreSQL", True, False, ReadAhead.OFF),
        ("PostgreSQL", False, True, ReadAhead.SWEEP),
    ],
)
def test_who_reads_ahead_decides(dbms, direct, random, answer):
    assert policy(dbms, direct_io=direct, random_only=random) is answer


@pytest.mark.requirement("R-STO-23")
def test_db2_is_history_without_a_gain_to_expect():
    finding = finding_of(RULE, make_case(lvm_host(read_ahead="0", effective_read_ahead_kb=0)))
    db2 = next(effect for effect in finding.effects if "DB2" in effect.text)
    assert (db2.low, db2.high) == (None, None)
    assert max(effect.high for effect in finding.effects if effect.high) == 0.06


def test_direct_io_for_data_files_makes_read_ahead_moot():
    server = make_server(changed={"debug_io_direct": "data"})
    host = lvm_host(read_ahead="0", effective_read_ahead_kb=0)
    assert finding_of(RULE, make_case(host, server)).answer is Answer.NOT_APPLICABLE


def test_an_unread_device_is_unknown():
    places = (place(Purpose.DATA, "/p", ["sdq"]),)
    assert finding_of(RULE, make_case(simple_host(disk("sda"), places=places))).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-STO-26", "CON-06")
def test_random_reads_get_a_sweep_that_needs_a_test():
    statistics = Statistics(Window(10, "sampled"), analytic_share=0.0)
    case = make_case(lvm_host(), statistics=statistics, workload=WorkloadClass.READ_ONLY)
    finding = finding_of("read-ahead-sweep", case)
    assert (finding.answer, finding.state) == (Answer.FINDING, ProofState.NEEDS_TEST)
    assert all(f"{kb} KiB" in " ".join((*finding.alternatives, "0 KiB", "512 KiB")) for kb in SWEEP_KB)
    assert finding.changes[0].undo == ("lvchange -r auto /dev/edbvg/edb_data",)


@pytest.mark.parametrize(
    ("workload", "scans", "answer"),
    [
        (WorkloadClass.OLTP, 0.0, Answer.NOT_APPLICABLE),
        (WorkloadClass.READ_ONLY, 0.4, Answer.OK),
    ],
)
def test_other_loads_get_no_sweep(workload, scans, answer):
    statistics = Statistics(Window(10, "sampled"), analytic_share=scans)
    case = make_case(lvm_host(), statistics=statistics, workload=workload)
    assert finding_of("read-ahead-sweep", case).answer is answer


def test_the_device_of_an_encrypted_volume_is_named_as_device_mapper_does():
    crypt = BlockDevice("dm-2", "crypt", ("dm-0",), read_ahead_kb=0, mapper="edb_data_enc")
    host = lvm_host()
    places = (place(Purpose.DATA, "/edb_data/main", ["vda"], stack=("dm-2", "dm-0", "vda")),)
    host = replace(host, devices=(*host.devices, crypt), places=places)
    (change,) = finding_of(RULE, make_case(host)).changes
    assert change.commands == ("blockdev --setra 256 /dev/mapper/edb_data_enc",)
