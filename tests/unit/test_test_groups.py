"""Tests of one group stay on one worker: the suite rests on it where tests share a rule, a port or a cluster."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("of-this-test")
def test_workers_are_told_the_group(request: pytest.FixtureRequest) -> None:
    """pytest-xdist spreads tests by a name that ends with their group; pytest 9.2 took that end away unnoticed."""
    if not getattr(request.config.option, "loadgroup", False):  # set in workers alone
        pytest.skip("groups matter to workers that --dist loadgroup feeds")
    assert request.node.nodeid.endswith("@of-this-test")
