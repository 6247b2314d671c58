"""Slips in what a replay is asked for are told before anything is brought back or sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.cli.replay import _map
from pgdyno.errors import UsageError
from pgdyno.replay.captured import Asked
from pgdyno.replay.restore import restore_of
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.slips import (
    require_known,
    require_new,
    require_no_stop,
    require_restored,
    require_watched,
)
from pgdyno.trial.guard_settings import guard_plan

ASKED = Asked(("app", "batch"), ("shop",), 3, 1)
OPTIONS = ReplayOptions(Path("t.parquet"), Path("x.outcome"))


def test_an_outcome_that_is_there_is_found_before_the_first_run(tmp_path: Path) -> None:
    require_new([tmp_path / "a", tmp_path / "b"])
    (tmp_path / "b").symlink_to("nowhere")
    with pytest.raises(UsageError, match='b" already exists'):
        require_new([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize("word", ["errors=5%", "p99=3x", "temp=1GB"])
def test_a_limit_that_nobody_would_watch_is_refused(word: str) -> None:
    name = word.partition("=")[0]
    with pytest.raises(UsageError, match=f"guard {name} watches the load of a trial, and not a replay"):
        require_watched(guard_plan([word], 1))
    require_watched(guard_plan(["disk=5GB", f"{name}=off"], 1))


def test_a_stop_file_of_the_run_before_is_refused(tmp_path: Path) -> None:
    options = replace(OPTIONS, stop_file=tmp_path / "stop")
    require_no_stop(options)
    require_no_stop(OPTIONS)
    (tmp_path / "stop").touch()
    with pytest.raises(UsageError, match="exists already"):
        require_no_stop(options)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"users": {"ap": "test"}}, '--user-map names role "ap"'),
        ({"databases": {"app": "test"}}, '--database-map names database "app"'),
    ],
)
def test_a_map_of_what_the_trace_has_not_is_a_slip(changed: dict[str, dict[str, str]], words: str) -> None:
    require_known(replace(OPTIONS, users={"app": "test"}, databases={"shop": "test"}), ASKED)
    with pytest.raises(UsageError, match=words) as told:
        require_known(replace(OPTIONS, **changed), ASKED)  # type: ignore[arg-type]  # a field each
    assert told.value.hint
    assert ("app, batch" in told.value.hint) == ("users" in changed)


def test_a_mapped_name_may_be_quoted_as_in_sql() -> None:
    words = ('"a=b"=c', ' d = "e=""f" ', '"x ""y"" z"="1"', 'g"h=i=j', '"k=l')
    wanted = {"a=b": "c", "d": 'e="f', 'x "y" z': "1", 'g"h': "i=j", '"k': "l"}
    assert _map(words, "--database-map") == wanted
    with pytest.raises(UsageError, match='--user-map "a=" is not OLD=NEW'):
        _map(("a=",), "--user-map")


def test_a_name_that_is_mapped_to_two_is_refused() -> None:
    assert _map(("a=b", "a=b", "c=d"), "--user-map") == {"a": "b", "c": "d"}
    with pytest.raises(UsageError, match='--user-map names "a" twice: b and c'):
        _map(("a=b", "a=c"), "--user-map")


def test_a_load_that_goes_to_another_database_than_comes_back_is_refused() -> None:
    template = restore_of("template:shop_before=shop_replay")
    with pytest.raises(
        UsageError, match='the load goes to database "shop", and --restore brings back shop_replay'
    ) as e:
        require_restored(template, OPTIONS, ASKED)
    assert "--database-map shop=shop_replay" in str(e.value.hint)
    require_restored(template, replace(OPTIONS, databases={"shop": "shop_replay"}), ASKED)
    for whole in ("directory:/srv/before", "command:/bin/back", "basebackup:host=keeper"):
        require_restored(restore_of(whole), OPTIONS, ASKED)
