"""The topology file: its structure is that of a storage server, and every mistake is named."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.advisor.storage_server import expand, read_topology
from pgdyno.errors import UsageError

SMALL = {
    "name": "box",
    "attachment": "ECKD",
    "servers": ["s0", "s1"],
    "pools": [{"name": "P0", "server": "s0"}, {"name": "P1", "server": "s1"}],
    "sites": [{"name": "S0", "adapter_pair": "DA0"}, {"name": "S1", "adapter_pair": "DA0"}],
    "ranks": [{"name": "R0", "site": "S0", "pool": "P0"}, {"name": "R1", "site": "S1", "pool": "P1"}],
    "volumes": [{"addresses": "5100-5103", "rank": "R0"}, {"addresses": "5200,5201", "rank": "R1"}],
}


def changed(*path, value):
    document = copy.deepcopy(SMALL)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.requirement("R-STO-17")
def test_a_volume_knows_the_way_to_its_server():
    topology = read_topology(json.dumps(SMALL), "box.json")
    volume = topology.volume("5102")
    assert (volume.rank.array_site, volume.rank.adapter_pair, volume.rank.pool) == ("S0", "DA0", "P0")
    assert topology.resources(volume) == {"server": "s0", "adapter pair": "DA0", "rank": "R0"}
    assert len(topology.volumes) == 6


@pytest.mark.requirement("R-STO-17")
def test_json_and_toml_say_the_same():
    text = (Path(__file__).parents[3] / "examples" / "storage" / "ds8000.toml").read_text()
    import tomllib

    assert read_topology(text, "a") == read_topology(json.dumps(tomllib.loads(text)), "a")


@pytest.mark.requirement("R-STO-17")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (changed("ranks", 1, "site", value="S9"), 'rank R1: array site "S9"'),
        (changed("ranks", 1, "site", value="S0"), "its array or array site is that of rank R0"),
        (changed("ranks", 1, "pool", value="P9"), 'extent pool "P9"'),
        (changed("pools", 0, "server", value="s9"), 'pool P0: server "s9"'),
        (changed("sites", 0, "disks", value=6), "array site S0: 6 disks, and an array site has 8"),
        (
            changed("sites", value=[{"name": f"S{i}", "adapter_pair": "DA0"} for i in range(5)]),
            'adapter pair "DA0" has more than 4 array sites',
        ),
        (changed("volumes", 0, "rank", value="R9"), 'row 1: rank "R9"'),
        (changed("volumes", 0, "addresses", value="5103-5100"), "run backwards"),
        (changed("volumes", 1, "addresses", value="5100"), "volume 5100 appears twice"),
        (changed("volumes", 0, "path", value="p9"), 'path "p9" is not one of none'),
        (changed("volumes", value=[{"addresses": "1", "pool": "P0"}]), "not a striped pool"),
        (changed("volumes", value=[]), "has no [[volumes]]"),
        (changed("volumes", value=[3]), "not a table"),
        (changed("servers", value="s0"), "servers is not a list of names"),
        (changed("servers", value=["s0", "s0"]), "names one twice"),
        (changed("attachment", value="token ring"), 'attachment "TOKEN RING"'),
        (changed("rank", value=[]), "rank is not a part of a topology"),
        (changed("pools", 0, "name", value=7), "name is 7, no text"),
        (changed("pools", 0, "name", value="P1"), "P1 appears twice"),
        ("{", "neither JSON nor TOML"),
        ("a = ", "neither JSON nor TOML"),
    ],
)
def test_mistakes_are_named(text, words):
    with pytest.raises(UsageError) as caught:
        read_topology(text, "box.json")
    assert words in caught.value.message
    assert caught.value.hint


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    with pytest.raises(UsageError):
        read_topology(text, "noise")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(SMALL)), values)
def test_any_value_in_any_part_is_read_or_refused(part, value):
    with suppress(UsageError):  # any other exception would be a traceback for the user
        assert read_topology(changed(part, value=value), "noise").volumes


@given(st.integers(0, 0xFF00), st.integers(0, 64))
def test_ranges_hold_every_address_once(first, more):
    found = expand(f"{first:04x}-{first + more:04X}")
    assert [int(address, 16) for address in found] == list(range(first, first + more + 1))
