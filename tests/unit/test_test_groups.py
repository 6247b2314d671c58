"""Tests of one group stay on one worker: the suite rests on it where tests share a rule, a port or a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import conftest
from conftest import LONGEST
from few_messages import but_what_nobody_reads
from templates import FOLDER

TESTS = Path(__file__).parents[1]


@pytest.mark.xdist_group("of-this-test")
def test_workers_are_told_the_group(request: pytest.FixtureRequest) -> None:
    """pytest-xdist spreads tests by a name that ends with their group; pytest 9.2 took that end away unnoticed."""
    if not getattr(request.config.option, "loadgroup", False):  # set in workers alone
        pytest.skip("groups matter to workers that --dist loadgroup feeds")
    assert request.node.nodeid.endswith("@of-this-test")


def test_one_worker_has_collected_before_the_others_began(request: pytest.FixtureRequest) -> None:
    """Each would rewrite the asserts of all tests; nothing fails where it does, it takes 9 s of CPU."""
    if not hasattr(request.config, "workerinput"):
        pytest.skip("a run without workers collects once")
    assert (Path(os.environ[FOLDER]) / "collected").exists()


def report(when: str, outcome: str = "passed", sections: tuple[tuple[str, str], ...] = ()) -> dict[str, object]:
    return {"data": {"when": when, "outcome": outcome, "sections": list(sections)}}


def test_a_worker_tells_of_a_test_what_somebody_reads() -> None:
    sent: list[tuple[str, dict[str, object]]] = []
    send = but_what_nobody_reads(lambda name, **told: sent.append((name, told)))
    read = [
        ("testreport", report("call")), ("testreport", report("call", "failed")),
        ("testreport", report("setup", "failed")), ("testreport", report("setup", "skipped")),
        ("testreport", report("teardown", "failed")), ("testreport", report("teardown", sections=(("out", "a"),))),
        ("runtest_protocol_complete", {"item_index": 3}), ("warning_recorded", {"when": "config"}),
    ]  # fmt: skip
    unread = [
        ("testreport", report("setup")), ("testreport", report("teardown")),
        ("logstart", {"nodeid": "a"}), ("logfinish", {"nodeid": "a"}),
    ]  # fmt: skip
    for name, told in (*read, *unread):
        send(name, **told)
    assert sent == read


def test_workers_send_only_what_is_read(request: pytest.FixtureRequest) -> None:
    option = request.config.option
    if not hasattr(request.config, "workerinput") or option.verbose > 0 or option.durations is not None:
        pytest.skip("without workers, with -v and with --durations all is told")
    (sends,) = [one.sendevent for one in request.config.pluginmanager.get_plugins() if hasattr(one, "sendevent")]
    assert sends.__name__ == "send_what_is_read"


def test_each_file_is_part_of_one_run_and_of_a_run_without_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs beside each other are told apart by their parts alone: what both left out nobody would miss."""
    files = sorted(TESTS.glob("unit/**/test_*.py"))
    monkeypatch.setattr(conftest, "PART", ["1", "1"])
    assert not any(map(conftest.pytest_ignore_collect, files))
    kept = []
    for number in ("1", "2"):
        monkeypatch.setattr(conftest, "PART", [number, "2"])
        kept.append({file for file in files if not conftest.pytest_ignore_collect(file)})
        assert not conftest.pytest_ignore_collect(TESTS / "unit" / "stats"), "a folder may hold both"
    assert kept[0] | kept[1] == set(files)
    assert not kept[0] & kept[1]
    assert min(map(len, kept)) > len(files) / 3


def test_what_takes_longest_is_there() -> None:
    """A name that is no group and no file any more would begin nothing first."""
    files = {
        path.stem: path.read_text() for folder in ("pg", "contract") for path in (TESTS / folder).glob("test_*.py")
    }
    for name in LONGEST:
        assert name in files or any(f'xdist_group("{name}")' in text for text in files.values()), name
