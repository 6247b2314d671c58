"""The path to the server, and runs that were not seen well enough: what is named, and what must not be."""

import socket
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.linux.host_texts import SPEEDS, read_texts
from pgdyno.model.bottleneck import Resource
from pgdyno.probes.bottleneck_judge import judge_bottleneck
from pgdyno.probes.host import net
from pgdyno.probes.network_path import is_elsewhere, is_network, link_speeds, path_counters
from pgdyno.probes.run_figures import CpuFigures, DeviceFigures, InterfaceFigures, LoadShape, RunFigures
from pgdyno.workloads.result import mean_round_trips
from pgdyno.workloads.script import Script
from pgdyno.workloads.script_statements import round_trips

IDLE = CpuFigures(8, usr=5, sys=3, irq=0, iowait=0, steal=0, run_queue=1, server_share=0.5, driver_share=0.3)
FULL = replace(IDLE, usr=70, sys=25)
FAR = LoadShape(
    clients=10, jobs=2, throughput=100, driver_cpu_s=2, load_s=60, driver_is_here=False, over_network=True,
    round_trip_ms=10.0, round_trips=7.0,
)  # fmt: skip
RUN = RunFigures(FAR, 60, moments=60, sessions=10, active=2, waits={"CPU:CPU": 2.0}, cpu=IDLE,
                 devices=(DeviceFigures("vda", 10, 10, 0.1, 3),))  # fmt: skip
NEAR = replace(FAR, over_network=False, round_trip_ms=None, driver_is_here=True)


def judged(**changes):
    return judge_bottleneck(replace(RUN, **changes))


@pytest.mark.requirement("R-MON-14")
def test_round_trips_that_take_most_of_the_time_are_the_network_not_too_few_clients():
    found = judged()
    assert found.resource is Resource.NETWORK
    assert "10.00 ms" in found.evidence[0]
    assert "makes 7: 70 % of the sessions' time" in found.evidence[0]
    (client,) = [one for one in found.candidates if one.resource is Resource.CLIENT]
    assert client.share == pytest.approx(0.1)


@pytest.mark.requirement("R-MON-14")
def test_the_same_time_outside_the_server_without_a_network_is_the_clients():
    found = judged(load=NEAR)
    assert found.resource is Resource.CLIENT
    (network,) = [one for one in found.candidates if one.resource is Resource.NETWORK]
    assert network.share == 0
    assert "No network lies between" in network.sentence


@pytest.mark.requirement("R-MON-14")
def test_a_short_round_trip_leaves_the_time_with_the_client():
    assert judged(load=replace(FAR, round_trip_ms=0.1)).resource is Resource.CLIENT


@pytest.mark.requirement("R-MON-14")
@pytest.mark.parametrize(("missing", "word"), [("round_trips", "how many round trips"), ("round_trip_ms", "how long")])
def test_what_the_network_took_is_unknown_where_half_of_the_product_is(missing, word):
    found = judged(load=replace(FAR, **{missing: None}))
    assert found.resource is Resource.UNKNOWN
    assert word in found.evidence[0]


@pytest.mark.requirement("R-MON-14")
def test_sending_is_the_networks_only_where_there_is_one_and_the_driver_reads_in_time():
    sending = {"active": 9.0, "waits": {"Client:ClientWrite": 8.0, "CPU:CPU": 1.0}}
    quick = replace(FAR, round_trip_ms=0.1)
    assert judged(**sending, load=quick).resource is Resource.NETWORK
    for load in (NEAR, replace(quick, driver_cpu_s=100.0)):
        found = judged(**sending, load=load)
        assert found.resource is Resource.CLIENT
        assert "80 % was spent sending results that the client did not take" in found.evidence[0]


@pytest.mark.requirement("R-MON-14")
def test_an_interface_that_is_full_of_other_traffic_is_not_the_loads_when_it_came_by_a_socket():
    eth0 = (InterfaceFigures("eth0", 1000, 120_000, speed_mbit=1000.0),)
    assert judged(load=replace(FAR, round_trip_ms=0.1), interfaces=eth0).resource is Resource.NETWORK
    assert judged(load=NEAR, interfaces=eth0).resource is Resource.CLIENT


@pytest.mark.requirement("R-MON-14")
def test_a_driver_on_another_host_has_no_share_of_the_servers_cpus():
    near, far = (judged(load=load, cpu=FULL, active=8.0, waits={"CPU:CPU": 8.0}).evidence[0] for load in (NEAR, FAR))
    assert "of the busy time the server had 50 %, the driver 30 %" in near
    assert ("of the busy time the server had 50 %" in far, "driver" in far) == (True, False)


@pytest.mark.requirement("R-MON-14")
def test_the_drivers_machine_says_nothing_of_the_servers_cpus_but_of_the_driver():
    elsewhere = judged(cpu=FULL, own_host=False, active=8.0, waits={"CPU:CPU": 8.0})
    assert elsewhere.resource is Resource.CLIENT
    assert "95 % busy" in elsewhere.evidence[0]
    assert Resource.CPU not in {one.resource for one in elsewhere.candidates}
    unwatched = judged(own_host=False, active=8.0, waits={"CPU:CPU": 8.0})
    assert unwatched.resource is Resource.UNKNOWN
    assert "CPUs of the server's host were not sampled" in unwatched.evidence[0]


@pytest.mark.requirement("R-MON-14")
def test_cpus_that_others_keep_busy_are_not_named_where_the_sessions_did_not_want_them():
    found = judged(load=NEAR, cpu=FULL, active=10.0, waits={"IPC:BgworkerStartup": 10.0})
    assert found.resource is Resource.NONE
    assert judged(load=NEAR, cpu=FULL, active=10.0, waits={"CPU:CPU": 1.0}).resource is Resource.CPU


@pytest.mark.requirement("R-MON-14")
@pytest.mark.parametrize("moments", [1, 2, 10])
def test_too_few_moments_decide_nothing(moments):
    locked = {"active": 9.0, "waits": {"Lock:tuple": 9.0}}
    assert judged(**locked).resource is Resource.LOCKS
    found = judged(**locked, moments=moments)
    assert found.resource is Resource.UNKNOWN
    assert any(f"{moments} of 60" in note for note in found.notes)
    assert judged(**locked, moments=moments, cpu=FULL).resource is Resource.CPU  # what the machine says still holds


@pytest.mark.requirement("R-MON-14", "R-MON-03")
def test_reads_without_a_device_that_was_sampled_are_neither_disks_nor_page_cache():
    found = judged(active=9.0, waits={"IO:DataFileRead": 8.0}, devices=())
    assert found.resource is Resource.UNKNOWN
    assert not any("copies from the page cache" in one.sentence for one in found.candidates)


@pytest.mark.requirement("R-MON-14")
def test_a_rate_that_was_missed_makes_the_clients_a_closed_loop():
    late = replace(NEAR, rate=500.0)
    assert judged(load=late).resource is Resource.CLIENT
    assert judged(load=replace(late, throughput=500.0)).resource is Resource.NONE
    idle = judged(load=replace(late, throughput=500.0), cpu=FULL)
    (cpu,) = [one for one in idle.candidates if one.resource is Resource.CPU]
    assert cpu.share == pytest.approx(0.2)  # waiting for the schedule is no waiting for a CPU


@pytest.mark.requirement("R-MON-14")
@pytest.mark.parametrize(
    ("wait", "resource"),
    [("IPC:BufferIO", Resource.DISK), ("BufferPin:BufferPin", Resource.LOCKS),
     ("IPC:ProcArrayGroupUpdate", Resource.LOCKS), ("Timeout:SpinDelay", Resource.LOCKS)],
)  # fmt: skip
def test_waits_for_the_work_of_another_session_belong_to_its_resource(wait, resource):
    busy = (DeviceFigures("vda", 90_000, 10, 6.0, 99),)
    assert judged(active=9.0, waits={wait: 8.0}, devices=busy).resource is resource


SHARES = st.floats(0, 1)


@given(
    rtt=st.none() | st.floats(0, 1000), trips=st.none() | st.floats(0, 50), over=st.none() | st.booleans(),
    active=st.none() | st.floats(0, 10), moments=st.integers(0, 60), own=st.booleans(), sampled=st.booleans(),
    wait=st.sampled_from(["CPU:CPU", "Lock:tuple", "IO:DataFileRead", "Client:ClientWrite"]),
)  # fmt: skip
def test_every_run_however_badly_seen_has_a_verdict_with_shares(rtt, trips, over, active, moments, own, sampled, wait):
    load = replace(FAR, round_trip_ms=rtt, round_trips=trips, over_network=over)
    seen = {} if active is None else {wait: active}
    found = judge_bottleneck(replace(RUN, load=load, active=active, waits=seen, moments=moments, own_host=own,
                              cpu=IDLE if sampled else None))  # fmt: skip
    assert found.evidence
    assert all(0 <= one.share <= 1 for one in found.candidates)
    if found.resource is Resource.NETWORK:
        assert over is not False


@pytest.mark.requirement("R-MON-14")
def test_a_session_leaves_the_machine_only_by_an_address_that_is_not_ours():
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        assert is_network(SimpleNamespace(fileno=left.fileno)) is False
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert is_network(SimpleNamespace(fileno=client.fileno)) is False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        try:
            far.connect(("192.0.2.1", 5432))  # documentation's own address; a datagram socket sends nothing yet
        except OSError:
            pytest.skip("this machine has no route to anywhere")
        assert is_network(SimpleNamespace(fileno=far.fileno)) is True


@pytest.mark.parametrize(
    ("host", "elsewhere"),
    [("/run/postgresql", False), ("@abstract", False), ("localhost", False), ("127.0.0.1", False),
     ("192.0.2.1", True), ("no.such.host.invalid", True)],
)  # fmt: skip
def test_a_load_that_is_sent_to_an_address_of_ours_stays_here(host, elsewhere):
    assert is_elsewhere(host) is elsewhere


def test_the_path_counters_hold_what_is_known():
    assert path_counters(None, [], {}) == {}
    assert path_counters(False, [], {"eth0": 1000.0}) == {"over_network": 0.0, "link_mbit.eth0": 1000.0}
    far = path_counters(True, [0.010, 0.011, 0.010, 0.900], {})
    assert far["round_trip_ms"] == pytest.approx(10.0)  # one that waited for a CPU does not count
    assert link_speeds({"link_mbit.eth0": 1000.0, "blks_hit": 5.0}) == {"eth0": 1000.0}


def test_speeds_are_those_that_drivers_tell(tmp_path):
    for name, speed in (("eth0", "25000\n"), ("veth1", "-1\n")):
        (tmp_path / "class/net" / name).mkdir(parents=True)
        (tmp_path / "class/net" / name / "speed").write_text(speed)
    (tmp_path / "class/net/lo").mkdir()
    assert net.parse_speeds(read_texts(sys=tmp_path).texts[SPEEDS]) == {"eth0": 25000.0}
    assert net.parse_speeds("") == {}


@pytest.mark.parametrize(
    ("script", "trips"),
    [(Script("tpcb-like"), 7), (Script("simple-update"), 5), (Script("select-only"), 1), (Script("other"), None),
     (Script("own", text="\\set a 1\nBEGIN;\nSELECT :a; -- ;\nEND;\n"), 3),
     (Script("joined", text="SELECT 1\\; SELECT 2;\n"), 1),
     (Script("chance", text="\\if :a\nSELECT 1;\n\\endif\n"), None),
     (Script("piped", text="\\startpipeline\nSELECT 1;\nSELECT 2;\n\\endpipeline\n"), None)],
    ids=lambda value: value.name if isinstance(value, Script) else "",
)  # fmt: skip
def test_a_transaction_waits_for_each_statement_that_is_sent_alone(script, trips):
    assert round_trips(script) == trips


def test_a_mix_makes_as_many_round_trips_as_its_transactions_on_average():
    counts = {"a": 30, "b": 10, "c": 0}
    assert mean_round_trips(counts, {"a": 1, "b": 5, "c": None}) == 2.0
    assert mean_round_trips(counts, {"a": 1, "b": None}) is None
    assert mean_round_trips({}, {}) is None
