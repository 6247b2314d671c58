"""Disks of storage servers: the worst case is found, and the proposed order loads everything alike."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.advisor.disk_order import Separation, check, consecutive, propose, propose_apart, separation
from pgdyno.advisor.storage_server import Attachment, Topology, expand, read_topology
from pgdyno.errors import UsageError

EXAMPLE = Path(__file__).parents[3] / "examples" / "storage" / "ds8000.toml"


def example() -> Topology:
    return read_topology(EXAMPLE.read_text(), "ds8000.toml")


def grid(servers: int, pairs: int, per_cell: int, per_rank: int, paths: int, attachment: str = "FCP") -> Topology:
    """Make a storage server in which every server has as many ranks behind every adapter pair."""
    ranks, sites, volumes = [], [], []
    for pair in range(pairs):
        for server in range(servers):
            for number in range(per_cell):
                name = f"{pair}-{server}-{number}"
                sites.append({"name": f"S{name}", "adapter_pair": f"DA{pair}"})
                ranks.append({"name": f"R{name}", "site": f"S{name}", "pool": f"P{server}"})
                first = 0x1000 + len(ranks) * 0x100
                volumes.append({"addresses": f"{first:04X}-{first + per_rank - 1:04X}", "rank": f"R{name}"})
    document = {
        "name": "grid",
        "attachment": attachment,
        "servers": [f"s{server}" for server in range(servers)],
        "paths": [f"path{path}" for path in range(paths)],
        "pools": [{"name": f"P{server}", "server": f"s{server}"} for server in range(servers)],
        "sites": sites,
        "ranks": ranks,
        "volumes": volumes,
    }
    return read_topology(json.dumps(document), "grid.json")


@pytest.mark.requirement("R-STO-15")
def test_sixteen_addresses_in_a_row_are_close_to_the_worst_case():
    balance = check(example(), expand("5100-510F"))
    assert balance.worst_case
    assert not balance.balanced
    assert "consecutive addresses lie on rank R1" in balance.problems[0]
    better = check(example(), [volume.address for volume in propose(example(), 16)])
    assert better.balanced
    assert not better.worst_case


@pytest.mark.requirement("R-STO-14")
def test_what_is_out_of_balance_is_named():
    balance = check(example(), expand("5100,5101,5300,5301,5700,5500"))
    assert not balance.worst_case
    assert any(problem.startswith("server: the busiest has 6") for problem in balance.problems)


@pytest.mark.requirement("R-STO-14", "R-STO-16")
@settings(max_examples=60)
@given(
    servers=st.integers(1, 2),
    pairs=st.integers(1, 6),
    per_cell=st.integers(1, 2),
    per_rank=st.integers(1, 6),
    paths=st.integers(1, 8),
    data=st.data(),
)
def test_every_resource_is_used_alike_at_every_length(servers, pairs, per_cell, per_rank, paths, data):
    topology = grid(servers, pairs, per_cell, per_rank, paths)
    count = data.draw(st.integers(1, len(topology.volumes)))
    chosen = propose(topology, count)
    assert len({volume.address for volume in chosen}) == count
    for length in range(1, count + 1):
        for kind in ("server", "adapter pair", "rank", "path"):
            every = (
                {topology.resources(volume)[kind] for volume in topology.volumes} if kind != "path" else topology.paths
            )
            used = Counter(dict.fromkeys(every, 0))
            used.update(topology.resources(volume)[kind] for volume in chosen[:length])
            assert max(used.values()) - min(used.values()) <= 1, (kind, length)


@pytest.mark.requirement("R-STO-16")
def test_neighbours_change_rank_and_path_and_the_first_round_takes_every_rank():
    chosen = propose(example(), 16)
    for one, other in pairwise(chosen):
        assert one.rank != other.rank
        assert one.path != other.path
    assert len({volume.rank for volume in chosen[:8]}) == 8


@pytest.mark.requirement("R-STO-16")
def test_eckd_gets_no_path_and_fcp_a_fixed_one():
    assert all(volume.path is None for volume in propose(grid(2, 2, 1, 2, 4, "ECKD"), 8))
    fcp = propose(grid(2, 2, 1, 2, 4), 8)
    assert Counter(volume.path for volume in fcp) == dict.fromkeys(["path0", "path1", "path2", "path3"], 2)


@pytest.mark.requirement("R-STO-02")
def test_the_log_gets_ranks_of_its_own():
    data, wal = propose_apart(example(), 8, 2)
    assert separation(example(), data, wal) is Separation.RANK
    assert not {volume.rank for volume in data} & {volume.rank for volume in wal}


@pytest.mark.requirement("R-STO-02")
@pytest.mark.parametrize(
    ("data", "wal", "answer"),
    [
        ("5100,5300", "5200", Separation.SERVER),
        ("5100,5200", "5300", Separation.POOL),
        ("5100,5200", "5500", Separation.RANK),
        ("5100,5200", "5101", Separation.NONE),
    ],
)
def test_how_far_apart_two_lists_are(data, wal, answer):
    topology = example()
    first, second = ([topology.volume(address) for address in expand(words)] for words in (data, wal))
    assert separation(topology, first, second) is answer


def test_the_log_shares_ranks_where_there_is_only_one():
    topology = grid(1, 1, 1, 4, 1)
    data, wal = propose_apart(topology, 2, 1)
    assert separation(topology, data, wal) is Separation.NONE


@pytest.mark.parametrize(
    ("addresses", "answer"),
    [
        (["0.0.5100", "0.0.5101", "0.0.5102"], True),
        (["510F", "5110", "5111"], True),
        (["5100", "5102", "5104"], False),
        (["5100", "5101"], False),
        (["sda", "sdb", "sdc"], False),
    ],
)
def test_consecutive(addresses, answer):
    assert consecutive(addresses) is answer


def test_striped_pools_are_balanced_by_pool():
    document = {
        "servers": ["s0", "s1"],
        "pools": [{"name": f"P{i}", "server": f"s{i}", "striped": True} for i in (0, 1)],
        "sites": [{"name": "S0", "adapter_pair": "D0"}, {"name": "S1", "adapter_pair": "D0"}],
        "ranks": [{"name": f"R{i}", "site": f"S{i}", "pool": f"P{i}"} for i in (0, 1)],
        "volumes": [{"addresses": "1000-1003", "pool": "P0"}, {"addresses": "2000-2003", "pool": "P1"}],
    }
    topology = read_topology(json.dumps(document), "striped.json")
    assert [volume.pool for volume in propose(topology, 4)] == ["P0", "P1", "P0", "P1"]
    assert check(topology, ["1000", "1001", "1002"]).problems[0].startswith("server: the busiest has 3")


@pytest.mark.parametrize("count", [0, -1, 129])
def test_too_many_or_none_is_a_usage_error(count):
    with pytest.raises(UsageError, match="128 free volumes"):
        propose(example(), count)


def test_unknown_and_double_addresses_are_named():
    with pytest.raises(UsageError, match='volume "9999"'):
        check(example(), ["9999"])
    with pytest.raises(UsageError, match="named twice"):
        check(example(), ["5100", "5100"])
    assert example().attachment is Attachment.FCP


@pytest.mark.requirement("R-STO-16")
def test_servers_are_balanced_before_ranks_where_not_both_can_be():
    document = {
        "servers": ["s0", "s1"],
        "pools": [{"name": "P0", "server": "s0"}, {"name": "P1", "server": "s1"}],
        "sites": [{"name": f"S{i}", "adapter_pair": "D0"} for i in range(4)],
        "ranks": [{"name": f"R{i}", "site": f"S{i}", "pool": "P1" if i == 3 else "P0"} for i in range(4)],
        "volumes": [{"addresses": f"{i}000-{i}007", "rank": f"R{i - 1}"} for i in range(1, 5)],
    }
    topology = read_topology(json.dumps(document), "uneven.json")
    assert Counter(topology.resources(volume)["server"] for volume in propose(topology, 8)) == {"s0": 4, "s1": 4}
    assert check(topology, [volume.address for volume in propose(topology, 8)]).balanced
