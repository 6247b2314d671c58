"""Signals that end a study restore its server, and one that was ignored before stays ignored."""

from __future__ import annotations

import signal

import pytest

from pgdyno.owner.signals import signals_interrupt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_as_an_interrupt_does(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # a run of tests may itself be one that nohup keeps
    try:
        with pytest.raises(KeyboardInterrupt), signals_interrupt():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_hang_up_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_interrupt():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
