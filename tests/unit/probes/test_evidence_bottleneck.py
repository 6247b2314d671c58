"""What held a load back, where throughput stops to rise, and series that were taken while caches filled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, make_host, make_server
from pgdyno.model.bottleneck import Resource
from pgdyno.model.classes import SizeClass, Utilization
from pgdyno.model.evidence import Concurrency, DeviceActivity, HostActivity, Window
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Database, Inventory
from pgdyno.probes.evidence.bottleneck import bottleneck
from pgdyno.probes.evidence.concurrency import knee
from pgdyno.probes.evidence.derive import utilization
from pgdyno.probes.evidence.warm_up import warm_up

IDLE = HostActivity(
    Window(10.0, "sampled"),
    usr_pct=5.0,
    iowait_pct=0.0,
    steal_pct=0.0,
    idle_pct=90.0,
    run_queue=1.0,
    network_utilization=0.1,
)
CALM = Concurrency(connected=10.0, active_mean=4.0, active_max=5, waits={"CPU": 4.0})
DISK = DeviceActivity("edb_data_enc", queue=0.1, util_pct=100.0)


@pytest.mark.requirement("R-MON-14")
@pytest.mark.parametrize(
    ("host", "device", "sessions", "kind"),
    [
        (replace(IDLE, idle_pct=3.0, run_queue=30.0), DISK, CALM, Resource.CPU),
        (replace(IDLE, idle_pct=40.0, steal_pct=50.0, iowait_pct=0.0), DISK, CALM, Resource.NONE),
        (
            replace(IDLE, iowait_pct=40.0, idle_pct=50.0),
            replace(DISK, queue=1477.52),
            replace(CALM, waits={"IO:DataFileRead": 3.0, "CPU": 1.0}),
            Resource.DISK,
        ),
        (replace(IDLE, network_utilization=0.95), DISK, CALM, Resource.NETWORK),
        (IDLE, DISK, replace(CALM, waits={"Lock:tuple": 2.0, "CPU": 2.0}), Resource.LOCKS),
        (IDLE, DISK, CALM, Resource.NONE),
    ],
)
def test_one_resource_is_named_with_its_figures(host, device, sessions, kind):
    found = bottleneck(host, (device,), sessions, moments=11)
    assert found.resource is kind
    assert found.evidence


@pytest.mark.requirement("R-STO-10", "R-MON-14")
def test_full_utilization_alone_is_no_bottleneck():
    assert bottleneck(IDLE, (DISK,), CALM, moments=11).resource is Resource.NONE


def test_nothing_watched_names_nothing():
    nothing = Unknown("not watched")
    assert isinstance(bottleneck(nothing, nothing, nothing, moments=0), Unknown)
    assert isinstance(bottleneck(nothing, nothing, CALM, moments=11), Unknown)  # its CPUs may have been busy
    locked = replace(CALM, waits={"Lock:tuple": 3.0})
    found = bottleneck(nothing, nothing, locked, moments=11)
    assert not isinstance(found, Unknown)
    assert found.resource is Resource.LOCKS


@pytest.mark.parametrize(
    ("waits", "resource"),
    [
        ({"LWLock:WALWrite": 2.5, "IO:WalSync": 0.5, "CPU": 1.0}, Resource.WAL_FLUSH),
        ({"IO:DataFileRead": 3.0, "CPU": 1.0}, Resource.NONE),
    ],
)
def test_the_load_of_others_is_told_from_locks_and_disks_as_our_own_runs_are(waits, resource):
    found = bottleneck(IDLE, (DISK,), replace(CALM, waits=waits), moments=11)
    assert found.resource is resource
    assert "of the sessions' time" in " ".join(found.evidence) or resource is Resource.NONE


def test_full_cpus_that_the_servers_sessions_hardly_use_are_not_what_held_it_back():
    full = replace(IDLE, usr_pct=95.0, idle_pct=3.0)
    idle = Concurrency(connected=3.0, active_mean=0.01, active_max=1, waits={"CPU": 0.01})
    nothing = bottleneck(full, (), idle, moments=11, cpus=4)
    assert (nothing.resource, nothing.evidence[0]) == (Resource.NONE, "No resource met its threshold.")
    found = bottleneck(full, (), CALM, moments=11, cpus=4)
    assert found.resource is Resource.CPU
    assert "The 4 CPUs were 97 % busy" in found.evidence[0]


def test_slow_takers_of_results_are_neither_the_network_nor_the_clients_where_nobody_knows_them():
    found = bottleneck(IDLE, (), replace(CALM, waits={"Client:ClientWrite": 3.0, "CPU": 1.0}), moments=11)
    assert isinstance(found, Unknown)
    assert "whether the network or the clients" in found.reason


def test_too_few_looks_at_the_sessions_name_no_wait():
    locked = replace(CALM, waits={"Lock:tuple": 4.0})
    assert isinstance(bottleneck(IDLE, (), locked, moments=2), Unknown)


@pytest.mark.requirement("R-PG-35")
@pytest.mark.parametrize(
    ("matrix", "clients"),
    [
        ([(2, 100.0), (8, 390.0), (32, 400.0), (64, 380.0)], 8),
        ([(32, 100.0), (2, 390.0), (8, 400.0)], 2),
        ([(2, 100.0), (8, 200.0), (32, 400.0)], None),
        ([(2, 100.0), (8, 200.0)], None),
        ([(1, 0.0), (2, 0.0), (3, 0.0)], None),
    ],
)
def test_knee_of_a_matrix(matrix, clients):
    found = knee(matrix)
    assert (None if isinstance(found, Unknown) else found) == clients


@pytest.mark.requirement("R-INV-20")
@pytest.mark.parametrize(
    ("host", "sessions", "kind"),
    [
        (IDLE, CALM, Utilization.HIGH),
        (IDLE, replace(CALM, active_mean=0.5), Utilization.LOW),
        (replace(IDLE, idle_pct=3.0), replace(CALM, active_mean=0.5), Utilization.HIGH),
        (Unknown("x"), Unknown("y"), None),
    ],
)
def test_how_busy_a_database_is(host, sessions, kind):
    inventory = Inventory(make_host(cpus=8), make_server())
    found = utilization(host, bottleneck(host, (), sessions, moments=11), sessions, inventory)
    assert (None if isinstance(found, Unknown) else found) == kind


@pytest.mark.requirement("R-INV-20")
@pytest.mark.parametrize(
    ("size", "kind"),
    [
        (32 * GB, SizeClass.SMALL),
        (128 * GB, SizeClass.MEDIUM),
        (129 * GB, SizeClass.LARGE),
        (Unknown("hidden"), None),
    ],
)
def test_how_large_a_database_is(size, kind):
    found = Inventory(make_host(ram_bytes=128 * GB), make_server(databases=(Database("app", size),))).size
    assert (None if isinstance(found, Unknown) else found) == kind


@pytest.mark.requirement("R-MON-11")
def test_three_phases_after_a_restart_are_not_steady():
    shared = [1e9 + 1e9 * step / 29 for step in range(30)]
    response = [2.0] * 10 + [9.0] * 10 + [2.2] * 10
    found = warm_up(shared, response)
    assert not found.is_steady
    assert len(found.phases) == 3


@pytest.mark.requirement("R-MON-11")
def test_full_caches_and_even_answers_are_steady():
    assert warm_up([2e9] * 30, [2.0, 2.1] * 15).is_steady
    assert isinstance(warm_up([2e9] * 3, [2.0] * 3), Unknown)
