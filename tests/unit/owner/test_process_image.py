"""What is kept of a server's process: it survives JSON, and what is said of it holds no value of a variable."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.control.pg_ctl import options_of
from pgdyno.model.shapes import shaped
from pgdyno.owner import process_image
from pgdyno.owner.process_image import ProcessImage, capture, differences
from pgdyno.owner.runner import LocalRunner
from pgdyno.undo import server_process

OWN = capture(os.getpid())
NAMES = st.from_regex(r"[A-Z_]{1,4}", fullmatch=True)
VALUES = st.text(st.characters(exclude_characters="\0"), max_size=8).map(lambda text: f"sesame{text}")


def test_nearly_everything_is_known_of_a_process_of_ours() -> None:
    assert set(OWN.values) | set(OWN.unknown) == {one.name for one in process_image.ATTRIBUTES}
    assert {"limit", "nice value", "CPU affinity", "cgroup", "oom_score_adj", "umask", "groups"} <= set(OWN.values)
    assert OWN.environment is not None
    assert OWN.values["limit"]["NOFILE"][0] > 0


@given(st.dictionaries(NAMES, VALUES), st.dictionaries(NAMES, VALUES))
def test_names_of_variables_are_told_and_values_never(before: dict[str, str], after: dict[str, str]) -> None:
    one, other = replace(OWN, environment=before), replace(OWN, environment=after)
    assert shaped(ProcessImage, json.loads(json.dumps(one.to_json()))) == one
    told = "\n".join(differences(one, other))
    assert "sesame" not in told + repr(one)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    named = {name for line in told.splitlines() for name in line.replace(",", "").split()}
    assert changed - process_image.SET_AT_EACH_START <= named
    assert bool(told) == bool(changed - process_image.SET_AT_EACH_START)


@pytest.mark.parametrize("before", [{}, {"PGDATA": "cluster"}, {"PGDATA": "/link/to/cluster"}])
def test_what_pg_ctl_sets_at_each_start_is_no_difference(before: dict[str, str]) -> None:
    """A server that was started with a relative -D, or without pg_ctl, came back "with another value of PGDATA"."""
    after = replace(OWN, environment={"PGDATA": "/srv/cluster", "PG_GRANDPARENT_PID": "7"})
    assert differences(replace(OWN, environment=before), after) == ()


def test_bytes_that_are_no_text_survive() -> None:
    odd = b"ODD=\xff\xfe\nx"
    with subprocess.Popen(["sleep", "60"], env={b"ODD": b"\xff\xfe\nx"}) as process:
        while b"sleep" not in process_image.PROC.joinpath(str(process.pid), "cmdline").read_bytes():
            pass
        image = shaped(ProcessImage, json.loads(json.dumps(capture(process.pid).to_json())))
        process.kill()
    assert image.environment is not None
    assert os.fsencode(f"ODD={image.environment['ODD']}") == odd


def test_rights_and_groups_are_of_one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process keeps its number when it executes a program with more rights, which sets the groups of root."""
    first = process_image._status_text(os.getpid())
    texts = iter([first.replace("Groups:\t", "Groups:\t4711 ")])
    later = first.replace("Groups:\t", "Groups:\t42 ")
    monkeypatch.setattr(process_image, "_status_text", lambda _: next(texts, later))
    groups = capture(os.getpid()).values["groups"]
    assert 4711 in groups
    assert 42 not in groups


def test_a_process_with_capabilities_is_not_started_again_without_them() -> None:
    able = {**OWN.values["capabilities"], "CapAmb": "0000000000004000"}
    image = replace(OWN, values={**OWN.values, "capabilities": able})
    failed = image.put_on()
    assert [text for text in failed if text.startswith("capabilities: ")]
    assert "capabilities CapAmb" in "\n".join(differences(image, OWN))


def test_each_limit_and_each_tree_has_a_line_of_its_own() -> None:
    limits = {**OWN.values["limit"], "CORE": [0, -1], "NOFILE": [1, 2]}
    older = {**OWN.values["limit"], "CORE": [-1, -1], "NOFILE": [1, 3]}
    values = {**OWN.values, "limit": limits, "nice value": -1, "cgroup": {"cpu": "/a"}}
    found = differences(
        replace(OWN, values={**OWN.values, "limit": older, "nice value": 0, "cgroup": {"cpu": "/b", "": "/c"}}),
        replace(OWN, values=values),
    )
    assert set(found) == {
        "limit CORE 0,unlimited instead of unlimited,unlimited",
        "limit NOFILE 1,2 instead of 1,3",
        "nice value -1 instead of 0",
        "cgroup cpu /a instead of /b",
        "cgroup not there instead of /c",
    }


def test_what_is_unknown_of_one_is_not_a_difference() -> None:
    values = {name: value for name, value in OWN.values.items() if name != "nice value"}
    less = replace(OWN, values=values, unknown={"nice value": "hidden"}, environment=None)
    assert differences(less, OWN) == differences(OWN, less) == ()


def test_our_own_process_can_be_had_again_and_a_wild_one_not() -> None:
    runner = LocalRunner()
    assert server_process.rehearse(OWN, runner) == ()
    wild = replace(OWN, values={**OWN.values, "cgroup": {**OWN.values["cgroup"], "cpu,nonesuch": "/nowhere"}})
    assert server_process.rehearse(wild, runner) == (
        "It would come back with cgroup cpu,nonesuch not there instead of /nowhere.",
    )


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["/bin/postgres", "-D", "/data", "-c", "a=b"], ("-c", "a=b")),
        (["/bin/postgres", "-c", "a=b c", "-D/data"], ("-c", "a=b c")),
        ([], ()),
    ],
)
def test_the_options_of_a_postmaster(words: list[str], options: tuple[str, ...]) -> None:
    assert options_of(words) == options
