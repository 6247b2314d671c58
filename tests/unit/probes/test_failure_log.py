"""A crash, a PANIC, a kill for want of memory and an operator's shutdown are told apart by the server's own log."""

import re
from types import SimpleNamespace

import pytest

from pgdyno.model.facts import Unknown
from pgdyno.model.samples import Event
from pgdyno.owner.hands import OURS
from pgdyno.probes.evidence.log_reader import LogReader
from pgdyno.probes.failure_log import LogWatch, explained
from pgdyno.probes.server_failures import count_failures, failure_warning
from pgdyno.targets import server_log

pytestmark = pytest.mark.requirement("R-MON-15")
AT = "2026-11-22 10:00:00.000 UTC [77] "
SIGNAL = "LOG:  server process (PID 4711) was terminated by signal {}: word\n"
RECOVERY = AT + "LOG:  database system was not properly shut down; automatic recovery in progress\n"
PANIC = AT + 'PANIC:  could not write to file "pg_wal/xlogtemp.9": No space left on device\n'
CRASH, RESTART, DOWN = (Event(5.0, kind, kind) for kind in ("crash", "restart", "down"))
KILLS = Event(4.0, "oom_kill", "the kernel killed 1 process(es) for want of memory")


def counted(*lines):
    reader = LogReader()
    reader.read([line.encode() for line in lines])
    return reader.counts


def kinds(events):
    return [event.kind for event in events]


def killed(number):
    return AT + SIGNAL.format(number)


def test_a_panic_is_no_crash_by_a_signal_though_the_process_aborts():
    (found,) = explained([CRASH], counted(PANIC, killed(6), RECOVERY), kills_counted=True)
    assert found.kind == "panic"
    assert "No space left on device" in found.text
    assert found.t == CRASH.t


def test_a_kill_is_for_want_of_memory_only_where_the_kernel_counted_one():
    log = counted(killed(9), RECOVERY)
    assert kinds(explained([KILLS, CRASH], log, kills_counted=True)) == ["oom_kill", "oom"]
    (sent,) = explained([CRASH], log, kills_counted=True)
    assert (sent.kind, "counted no kill" in sent.text) == ("crash", True)
    (hidden,) = explained([CRASH], log, kills_counted=False)
    assert (hidden.kind, "by whom is unknown" in hidden.text) == ("crash", True)


def test_other_signals_are_named():
    (found,) = explained([KILLS, CRASH], counted(killed(11)), kills_counted=True)[1:]
    assert (found.kind, "signal 11 (SIGSEGV)" in found.text) == ("crash", True)


@pytest.mark.parametrize("how", ["smart", "fast", "immediate"])
def test_a_shutdown_that_somebody_asked_for_is_no_failure_of_the_server(how):
    log = counted(f"{AT}LOG:  received {how} shutdown request\n", RECOVERY if how == "immediate" else "")
    assert kinds(explained([RESTART], log, kills_counted=True)) == ["stop", "restart"]
    assert kinds(explained([DOWN], log, kills_counted=True)) == ["stop", "down"]


def test_a_server_that_comes_up_without_having_been_shut_down_was_killed_whole():
    found, restart = explained([RESTART], counted(RECOVERY), kills_counted=True)
    assert restart == RESTART
    assert (found.kind, "first process was killed" in found.text) == ("crash", True)


@pytest.mark.parametrize("log", [Unknown("it is on another host"), counted()])
def test_what_the_log_does_not_tell_stays_and_says_so(log):
    found = explained([CRASH, Event(1.0, "deadlock", "x")], log, kills_counted=True)
    assert kinds(found) == ["crash", "deadlock"]
    assert re.search("cannot say why: it is on another host|does not say why", found[0].text)


def test_words_of_a_statement_decide_nothing():
    line = AT + "STATEMENT:  SELECT 'LOG:  received fast shutdown request', 'PANIC:  none'\n"
    (found,) = explained([CRASH], counted(line), kills_counted=True)
    assert found.kind == "crash"


def test_the_flag_of_a_run_says_what_is_known():
    events = explained([CRASH], counted(PANIC), kills_counted=True)
    warning = failure_warning(count_failures(events), events)
    assert warning is not None
    assert warning.startswith("the server failed during the run: 1 PANIC (the server ended itself: PANIC:")


def test_only_what_is_written_from_the_beginning_of_the_run_is_read(tmp_path, monkeypatch):
    log = tmp_path / "server.log"
    log.write_text(PANIC)
    (tmp_path / "data").mkdir()

    def fetch(query, params=None):
        return [{"name": "logging_collector", "setting": "off"}]

    target = SimpleNamespace(
        remote=None,
        local=True,
        disposable=True,
        directory=tmp_path / "data",
        cpu=SimpleNamespace(postmaster=lambda: None),
        postgres=SimpleNamespace(fetch=fetch),
    )
    monkeypatch.setattr(server_log, "_hands", lambda _: OURS)  # the folders of tests are nobody's but ours
    watch = LogWatch(target)
    quiet = watch.read()
    assert not isinstance(quiet, Unknown)
    assert quiet.counts == {}
    with log.open("a") as file:
        file.write(killed(9))
    found = watch.read()
    assert not isinstance(found, Unknown)
    assert (found.signals, found.counts.get("panics")) == ([9], None)
