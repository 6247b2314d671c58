"""What the host can see of a storage server: addresses, paths, models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import finding_of, make_case
from pgdyno.model.evidence import Evidence, HostActivity, Window
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, ProofState
from pgdyno.model.inventory import ChannelDevice, NetworkInterface, Purpose
from storage_case import disk, place, simple_host


def dasd_host(addresses, *, model="", chpids=("50", "54"), **parts):
    names = [f"dasd{letter}" for letter, _ in zip("abcdefgh", addresses, strict=False)]
    disks = tuple(disk(name, "dasd", logical_sector=4096, physical_sector=4096, model=model) for name in names)
    channels = tuple(
        ChannelDevice(f"0.0.{address}", "3390/0c", name, "active", chpids=chpids)
        for address, name in zip(addresses, names, strict=True)
    )
    places = (place(Purpose.DATA, "/pgdata/main", names, mount_point="/pgdata"),)
    values = {"architecture": "s390x", "devices": disks, "channel_devices": channels, "places": places}
    return simple_host(disks[0], **{**values, **parts})


@pytest.mark.requirement("R-STO-15", "R-INV-17")
def test_consecutive_addresses_are_found():
    finding = finding_of("disk-selection", make_case(dasd_host(["5100", "5101", "5102", "5103"])))
    assert finding.answer is Answer.FINDING
    assert "consecutive addresses, 0.0.5100 to 0.0.5103" in finding.evidence[0]
    assert "pgdyno disks" in finding.proposed


@pytest.mark.requirement("R-STO-14", "R-STO-18")
def test_addresses_apart_are_left_to_the_topology():
    finding = finding_of("disk-selection", make_case(dasd_host(["5100", "5600", "5300", "5800"])))
    assert finding.answer is Answer.OK
    assert "pgdyno disks" in finding.reason


@pytest.mark.requirement("R-STO-18")
def test_striping_and_other_vendors_are_named():
    finding = finding_of("disk-selection", make_case(dasd_host(["5100"])))
    assert finding.answer is Answer.FINDING
    assert "storage pool striping" in finding.why
    assert "other vendors" in finding.why


@pytest.mark.requirement("R-STO-15")
@pytest.mark.parametrize("channels", [Unknown("lscss is not installed"), ()])
def test_dasd_whose_addresses_are_unknown_are_not_called_apart(channels):
    host = replace(dasd_host(["5100", "5101"]), channel_devices=channels)
    assert finding_of("disk-selection", make_case(host)).answer is Answer.UNKNOWN


def test_disks_of_no_storage_server_are_not_judged():
    assert finding_of("disk-selection", make_case(simple_host(disk("nvme0n1", "nvme")))).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-INV-17")
@pytest.mark.parametrize(
    ("chpids", "answer"), [(("50",), Answer.FINDING), (("50", "54"), Answer.OK), ((), Answer.UNKNOWN)]
)
def test_channel_paths_are_counted(chpids, answer):
    assert finding_of("disk-paths", make_case(dasd_host(["5100", "5600"], chpids=chpids))).answer is answer


@pytest.mark.requirement("R-INV-16", "R-STO-14")
@pytest.mark.parametrize(
    ("adapters", "answer"),
    [
        (("0.0.1900 host0",), Answer.FINDING),
        (("0.0.1900 host0", "0.0.1940 host1"), Answer.OK),
        (("0.0.1900/0x5005076300c70a1b/0x4010400000000000 0:0:0:1", "0.0.1900 host0"), Answer.FINDING),
        ((), Answer.UNKNOWN),
        (Unknown("lszfcp is missing"), Answer.UNKNOWN),
    ],
)
def test_fcp_adapters_are_counted(adapters, answer):
    host = simple_host(disk("sda", "fcp"), adapters=adapters)
    assert finding_of("disk-paths", make_case(host)).answer is answer


@pytest.mark.requirement("R-INV-15")
def test_virtual_functions_of_one_port_are_found():
    def function(name, port):
        return NetworkInterface(name, "mlx5_core", 25000, 1500, port, "0000:01:00.0", True)

    host = simple_host(disk("sda"), network=(function("eno1", "p0"), function("eno2", "p0"), function("eno3", "p1")))
    finding = finding_of("network-path", make_case(host))
    assert finding.answer is Answer.FINDING
    assert "eno1, eno2 are virtual functions of one physical port" in finding.evidence[0]
    apart = simple_host(disk("sda"), network=(function("eno1", "p0"), function("eno3", "p1")))
    assert finding_of("network-path", make_case(apart)).answer is Answer.OK


@pytest.mark.requirement("R-INV-15")
@pytest.mark.parametrize(("share", "answer"), [(0.9, Answer.FINDING), (0.1, Answer.OK)])
def test_a_busy_interface_is_found(share, answer):
    host = simple_host(disk("sda"), network=(NetworkInterface("eno1", "qeth", 10000, 1500, up=True),))
    busy = HostActivity(Window(10, "sampled"), network_utilization=share)
    case = replace(make_case(host), evidence=Evidence(host=busy))
    assert finding_of("network-path", case).answer is answer


@pytest.mark.requirement("R-STO-20")
@pytest.mark.parametrize(
    ("model", "answer"),
    [("IBM 2105-800", Answer.FINDING), ("IBM 2107-900", Answer.OK), ("1750", Answer.OK), ("", Answer.UNKNOWN)],
)
def test_the_caching_mode_is_a_matter_of_the_ess(model, answer):
    finding = finding_of("eckd-caching-mode", make_case(dasd_host(["5100", "5600"], model=model)))
    assert finding.answer is answer
    if answer is Answer.FINDING:
        assert finding.state is ProofState.NEEDS_TEST
        assert finding.changes[0].commands[0] == "tunedasd --cache record /dev/dasda"
        assert finding.changes[0].undo[0] == "tunedasd --cache normal /dev/dasda"


@pytest.mark.requirement("R-STO-20")
def test_without_dasd_there_is_no_caching_mode():
    host = simple_host(disk("sda", "fcp"), architecture="s390x")
    assert finding_of("eckd-caching-mode", make_case(host)).answer is Answer.NOT_APPLICABLE
    assert finding_of("eckd-caching-mode", make_case(simple_host(disk("sda")))).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-STO-21", "CON-28", "CON-29")
def test_the_advice_on_disk_types_is_marked_historical():
    finding = finding_of("disk-type", make_case(dasd_host(["5100", "5600"])))
    assert finding.answer is Answer.FINDING
    assert "historical" in finding.title
    assert "removed from Linux 5.14" in finding.why
    assert finding.resolutions[0].id == "CON-29"
    scsi = simple_host(disk("sda", "fcp"), architecture="s390x")
    assert finding_of("disk-type", make_case(scsi)).answer is Answer.OK
