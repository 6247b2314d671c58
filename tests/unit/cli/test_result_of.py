"""A verb that reads results of one kind refuses a study of another."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pgdyno.cli.requests.study import require_two_studies, result_of
from pgdyno.errors import UsageError
from pgdyno.model.results.batch import BatchResult


def test_a_study_of_another_kind_is_refused_with_what_makes_one() -> None:
    found = BatchResult(study="s1", environment="e", chain="c")
    store = SimpleNamespace(study=lambda _: SimpleNamespace(id="s1", kind="batch", told=lambda kind: found))
    assert result_of(store, "last", BatchResult, "executions", "batch run") is found
    store = SimpleNamespace(study=lambda _: SimpleNamespace(id="s2", kind="ab", told=lambda kind: None))
    with pytest.raises(UsageError) as caught:
        result_of(store, "last", BatchResult, "executions", "batch run")
    assert caught.value.message == 'study "s2" is of kind ab and has no executions'
    assert caught.value.hint == "pgdyno store list shows the kinds; pgdyno batch run makes one."


def test_a_study_is_not_compared_with_itself() -> None:
    one, other = (BatchResult(study=name, environment="e", chain="c") for name in ("s1", "s2"))
    require_two_studies(one, other)
    with pytest.raises(UsageError, match='study "s1" is on both sides') as caught:
        require_two_studies(one, one)
    assert caught.value.hint
