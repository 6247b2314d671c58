"""No study is begun on a standby, whether it changes settings or not: it makes databases for its load."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from facts_from_params import make_facts
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.studies.session.study_session import StudyRequest, _refuse_unchangeable
from pgdyno.targets.target import Target


@pytest.mark.parametrize("changes", [True, False])
def test_a_standby_is_refused_before_its_load_is_made(changes: bool) -> None:
    facts = make_facts(18)
    standby = replace(facts, server=replace(facts.server, in_recovery=True))
    request = cast(StudyRequest, SimpleNamespace(changes=changes, restart="as-needed"))
    with pytest.raises(EnvironmentUnsuitable, match="db1 is a standby") as refused:
        _refuse_unchangeable(request, cast(Target, SimpleNamespace(name="db1")), standby)
    assert "databases for its load" in (refused.value.detail or "")
