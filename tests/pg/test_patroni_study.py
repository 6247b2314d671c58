"""A whole study on a real two-node cluster through the command line, with a failover in its middle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calm_load import calm
from fix_patroni import PatroniCluster, until
from warm_program import RunningPgdyno

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.xdist_group("patroni"), pytest.mark.timeout(600)]
ENDINGS = {0, 1, 3, 4, 6}
"""A verdict, not resolved, restored after a guard or an apply that failed, or a machine that cannot: never 5."""


def test_a_failover_in_the_middle_ends_restored_on_both_nodes(patroni: PatroniCluster, server_home: Path) -> None:
    document, leader, before = patroni.document(), patroni.leader, patroni.show("work_mem")
    first, second = server_home / "a.conf", server_home / "b.conf"
    first.write_text("random_page_cost = 1.5\n")
    second.write_text("work_mem = 7MB\n")
    command = [
        *("experiment", "--patroni", patroni.api["alpha"]),
        *("--patroni-auth", str(patroni.auth_file), "--target", patroni.conninfo, "--yes", "--json"),
        *("--ab", str(first), str(second), *calm(), "--pairs", "2", "3"),
    ]
    with RunningPgdyno(*command, PGDYNO_HOME=str(server_home)) as study:
        said = []
        for line in study.stderr:
            said.append(line)
            if "trial 1" in line:
                break
        patroni.switch_over()
        output, rest = study.communicate(timeout=500)
    said.append(rest)
    assert study.returncode in ENDINGS, "".join(said)
    assert "Traceback" not in "".join(said)
    if study.returncode in (0, 1, 3):
        assert json.loads(output)["verdict"]["word"]
    patroni.wait_whole()
    assert patroni.leader != leader
    assert patroni.document() == document
    until(lambda: patroni.show("work_mem") == before, lambda: f"not back: {patroni.show('work_mem')}")
    journals = list((server_home / "state" / "undo").glob("*/journal.jsonl"))
    assert journals
    assert all('"closed"' in journal.read_text() for journal in journals)
