"""A guard around every test that runs alone: a kernel value that it leaves changed is put back, and is its failure.

Else the tests after it fail for it, which look at the same values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from kernel_values import kernel_kept


@pytest.fixture(autouse=True)
def kernel_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("alone") is None or os.geteuid() != 0:
        yield
        return
    with kernel_kept() as left:
        yield
    assert left == [], "the test left the kernel changed; its values were put back"
