"""`pgdyno live --notify`: which programs are taken to tell a person that an answer is waited for."""

from __future__ import annotations

import pytest

from pgdyno.cli.requests import live_approval
from pgdyno.errors import EnvironmentUnsuitable, UsageError


@pytest.mark.parametrize("command", ["", "  ", "bell 'never ends"])
def test_what_is_no_command_is_refused_before_anything_is_watched(command):
    with pytest.raises(UsageError, match="--notify"):
        live_approval.notify_words(command)


def test_a_program_that_others_could_change_tells_nobody(tmp_path):
    bell = tmp_path / "bell"
    bell.write_text("#!/bin/sh\n")
    bell.chmod(0o777)
    for command in (str(bell), str(tmp_path / "missing")):
        with pytest.raises(EnvironmentUnsuitable):
            live_approval.notify_words(command)
