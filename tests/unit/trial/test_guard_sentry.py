"""The sentry's thread and what the laboratory makes of a breach, with readings made by hand."""

from __future__ import annotations

import queue
import re
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from guard_ticks import Readings, a_tick, full_disk, low_memory, sentry_of
from laboratory_parts import Parts, made
from pgdyno.errors import ApplyError, EnvironmentUnsuitable, GuardTripped, RollbackError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.guard import Failed, GuardPlan
from pgdyno.model.live import Colour
from pgdyno.model.trial import LoadPlan, Role, TrialSpec, TrialState
from pgdyno.probes.guards.reader import BY_SQL_ALONE, GuardedLoad, Tick
from pgdyno.trial import sentry as sentry_module
from pgdyno.trial.driven_load import TURN_S, DrivenLoad
from pgdyno.trial.guard_settings import guard_plan
from pgdyno.trial.sentry import GuardBreached, Sentry, off_text
from pgdyno.workloads.protocol import LoadReading

CANDIDATE = TrialSpec(Configuration.of({"work_mem": "8MB"}), Role.SEARCH, "model", 1, 0)


def until_breached(sentry: Sentry) -> GuardBreached:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            sentry.check()
        except GuardBreached as error:
            return error
        time.sleep(0.01)
    raise AssertionError("no breach within 20 s")


@pytest.mark.parametrize("is_captured", [True, False])
def test_ticks_know_whether_the_load_is_a_captured_one(is_captured: bool) -> None:
    seen = queue.SimpleQueue[GuardedLoad]()

    class Hearing(Readings):
        def read(self, t: float, load: GuardedLoad | None = None) -> Tick:
            if load is not None:
                seen.put(load)
            return super().read(t, load)

    sentry = sentry_of(Hearing())
    with sentry.watch():
        sentry.load_begins("shop", is_captured=is_captured)
        assert seen.get(timeout=20).is_captured is is_captured
        sentry.load_reads(LoadReading(time.time(), 1.0, 1.0, None, 1, 0))
        while (load := seen.get(timeout=20)).transactions == 0:
            pass
        assert load.is_captured is is_captured


def test_a_breach_is_raised_by_the_next_check_and_the_thread_ends_with_the_block() -> None:
    readings = Readings()
    sentry = sentry_of(readings)
    with sentry.watch():
        sentry.check()
        assert sentry.breach is None
        readings.make = low_memory
        assert until_breached(sentry).breach.name == "memory"
        assert {indicator.name: indicator.colour for indicator in sentry.indicators}["memory"] is Colour.RED
    for thread in threading.enumerate():
        if thread.name == "pgdyno-sentry":
            thread.join(20)
            assert not thread.is_alive()
    assert not readings.is_open
    readings.make = a_tick
    with sentry.watch():
        sentry.check()


def test_a_breach_wakes_whoever_waits_for_the_load() -> None:
    readings = Readings()
    sentry = sentry_of(readings)
    with sentry.watch():
        assert sentry.patience_left_s > 0
        assert not select.select([sentry.alarm], [], [], 0)[0]
        readings.make = low_memory
        assert select.select([sentry.alarm], [], [], 20)[0], "not only at the next turn"
        with pytest.raises(GuardBreached):
            sentry.check()
    readings.make = a_tick
    with sentry.watch():
        assert not select.select([sentry.alarm], [], [], 0)[0], "what tripped is over"


def test_a_turn_ends_with_the_planned_time_and_before_the_guards_are_given_up() -> None:
    now = [100.0]
    sentry = SimpleNamespace(patience_left_s=2.5, alarm=7)
    work = SimpleNamespace(running=1, sampler=1, extension=1, floor_tps=None, plan=LoadPlan(1, 1, 0.0, 10.0))
    driven = DrivenLoad(work, None, sentry, None, clock=time.time, timer=lambda: now[0])  # type: ignore[arg-type]  # parts
    assert driven._pause_s() == TURN_S
    sentry.patience_left_s = 0.25
    assert driven._pause_s() == 0.25
    sentry.patience_left_s, now[0] = 2.5, 109.75
    assert driven._pause_s() == 0.25
    now[0] = 110.5
    assert driven._pause_s() == TURN_S


def test_a_reading_that_never_comes_back_is_a_breach() -> None:
    frozen = threading.Event()

    def hang(t: float) -> Tick:
        frozen.wait(20)
        return a_tick(t)

    sentry = sentry_of(Readings(hang), "readings=0.1s")
    with sentry.watch():
        assert "no complete reading" in str(until_breached(sentry))
    with pytest.raises(EnvironmentUnsuitable, match="did not return"), sentry.watch():
        pass
    frozen.set()


def test_a_reader_that_breaks_is_a_breach_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail closed: a defect of ours must not leave a load unwatched."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def broken(t: float) -> Tick:
        raise RuntimeError("a defect")

    sentry = sentry_of(Readings(broken), "readings=0.1s")
    with sentry.watch():
        assert until_breached(sentry).breach.name == "readings"


def test_a_process_that_slept_gives_the_readings_a_new_chance() -> None:
    clock = [1000.0]
    sentry = Sentry(Readings(), GuardPlan(), clock=lambda: clock[0], tick_s=30.0)
    with sentry.watch():
        clock[0] += 3600
        sentry.check()
        clock[0] += 0.5
        sentry.check()


def test_waiting_is_interrupted_by_a_breach_and_by_the_user_alike() -> None:
    sentry = sentry_of(Readings(low_memory))
    with sentry.watch():
        began = time.monotonic()
        with pytest.raises(GuardBreached), sentry.interrupting():
            time.sleep(120)
        assert time.monotonic() - began < 100
    calm = sentry_of(Readings())
    with calm.watch(), pytest.raises(KeyboardInterrupt), calm.interrupting():
        raise KeyboardInterrupt


def test_an_interrupt_that_comes_just_before_a_wait_ends_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that another thread takes is such a one: Python knows of it, and the system call of the main one goes on."""
    kill, sent, nudge = signal.pthread_kill, [], signal.getsignal(signal.SIGURG)

    def beside(thread: int, number: int) -> None:
        sent.append(number)
        kill(thread if len(sent) > 1 else threading.get_ident(), number)

    monkeypatch.setattr(sentry_module.signal, "pthread_kill", beside)
    sentry = sentry_of(Readings(low_memory))
    with sentry.watch():
        began = time.monotonic()
        with pytest.raises(GuardBreached), sentry.interrupting():
            time.sleep(120)
        assert time.monotonic() - began < 100
    assert sent[:2] == [signal.SIGINT, signal.SIGURG]
    assert signal.SIGINT not in sent[1:]  # work that cleans up after it is not interrupted once more
    assert signal.getsignal(signal.SIGURG) is nudge


def test_a_session_begins_only_where_nothing_is_in_breach_and_all_can_be_seen() -> None:
    indicators = Sentry(Readings(), guard_plan(["errors=off"])).begin(clients=4, sleep=lambda _: None)
    assert "SWITCHED OFF by --guard: errors" in off_text(indicators)
    assert "NOT WATCHED" not in off_text(indicators)
    blind = [
        replace(indicator, colour=Colour.OFF, text=BY_SQL_ALONE) if indicator.name == "memory" else indicator
        for indicator in indicators
    ]
    assert f"NOT WATCHED: memory ({BY_SQL_ALONE})" in off_text(blind)
    for make, words in [
        (full_disk, r"guard disk: .* before anything was changed"),
        (lambda t: a_tick(t, server=Failed("refused")), "cannot see: refused"),
    ]:
        with pytest.raises(EnvironmentUnsuitable, match=words) as caught:
            Sentry(Readings(make)).begin(sleep=lambda _: None)
        assert caught.value.hint
    with pytest.raises(EnvironmentUnsuitable, match="90 of them for the load"):
        Sentry(Readings()).begin(clients=90, sleep=lambda _: None)


@pytest.mark.parametrize(
    ("prepared_s", "slept"), [(0.0, [1.0]), (0.6, [0.4]), (3.0, [0.0]), (4.0, [0.0]), (4.5, [1.0]), (-5.0, [1.0])]
)
def test_a_preparation_passes_the_second_that_rates_take(prepared_s: float, slept: list[float]) -> None:
    """One that took longer than a rate looks back, or a clock that was set back, gives no early reading."""
    now, waits = [1000.0], []

    def sleep(seconds: float) -> None:
        waits.append(round(seconds, 6))
        now[0] += seconds

    sentry = Sentry(Readings(), clock=lambda: now[0])
    sentry.look_early()
    now[0] += prepared_s
    assert any(indicator.name == "disk" for indicator in sentry.begin(sleep=sleep))
    assert waits == slept


def test_kills_since_boot_refuse_no_session_whose_first_reading_of_memory_failed() -> None:
    made = iter([Failed("no such file"), None])
    sentry = Sentry(Readings(lambda t: a_tick(t, memory=next(made), kills=7)))
    indicators = {indicator.name: indicator.colour for indicator in sentry.begin(sleep=lambda _: None)}
    assert indicators["oom"] is Colour.GREEN


def test_what_a_preparation_did_to_memory_refuses_no_session() -> None:
    """Stalls and kills in it are looked at again; a breach that lasts is one."""
    now = [1000.0]

    def stalled(t: float) -> Tick:
        calm = a_tick(t)
        return a_tick(t, memory=replace(calm.memory, kills=3, stalled_us=5_000_000 if now[0] > 1000.0 else 0))

    sentry = Sentry(Readings(stalled), clock=lambda: now[0])
    sentry.look_early()
    now[0] += 2.0
    waits: list[float] = []
    sentry.begin(sleep=waits.append)
    assert waits == [0.0, 1.0]
    full = Sentry(Readings(full_disk), clock=lambda: now[0])
    full.look_early()
    now[0] += 2.0
    with pytest.raises(EnvironmentUnsuitable, match="before anything was changed"):
        full.begin(sleep=lambda _: None)


class Guarded(Parts):
    """Parts whose load runs until it is ended, and that turn bad when the load has begun."""

    def __init__(self, readings: Readings, harm: Callable[[float], Tick], **errors: BaseException) -> None:
        super().__init__(**errors)
        self.readings, self.harm, self.notices = readings, harm, []

    def apply(self, configuration, *, restart):
        if not configuration:
            self.readings.make = a_tick
        self._happens(f"apply {'candidate' if configuration else 'baseline'}")
        return super().apply(configuration, restart=restart)

    def poll(self):
        return False

    def begin(self, target, dbname, plan, folder):
        self.readings.make = self.harm
        return super().begin(target, dbname, plan, folder)

    def reading(self, *_):
        time.sleep(0.01)

    def guards(self, indicators):
        pass

    def notice(self, text):
        self.notices.append(text)


@pytest.mark.parametrize(
    ("harm", "spec", "trips", "ends"),
    [
        (low_memory, CANDIDATE, 2, False),
        (low_memory, CANDIDATE, 1, True),
        (full_disk, CANDIDATE, 3, True),
        (low_memory, TrialSpec(BASELINE, Role.BASELINE, "baseline", 1, 0), 3, True),
    ],
)
def test_what_a_breach_ends(monkeypatch, tmp_path, harm, spec, trips, ends) -> None:
    readings = Readings()
    parts = Guarded(readings, harm)
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory._sentry = sentry_of(readings, trips=trips)
        if ends:
            with pytest.raises(GuardTripped) as caught:
                laboratory.run(spec)
            assert caught.value.hint
        else:
            assert laboratory.run(spec).state is TrialState.FAILED
        (trial,) = laboratory.store.trials("s1")
        events = laboratory.store.events(trial.id)
    assert trial.state is TrialState.FAILED
    assert [event.text for event in events] == parts.notices[-2:] == [trial.outcome.reason, parts.notices[-1]]
    assert 0 <= float(re.search(r"again (\S+) s after guard", parts.notices[-1])[1]) < 1e6, "seconds, of no epoch"
    at = parts.said.index("terminate load")
    assert parts.said[at : at + 3] == ["terminate load", "apply baseline", "apply"]
    assert parts.said[at + 3 :] == ["stop sampling", "trial failed"]
    assert readings.databases == ["load"]


def test_nobody_watches_while_the_baseline_comes_back(monkeypatch, tmp_path) -> None:
    """A restart would be a second breach, and the sentry's own session one more that a shutdown waits for."""
    readings = Readings()
    parts = Guarded(readings, low_memory)
    watch = Sentry.watch

    @contextmanager
    def told(sentry):
        with watch(sentry):
            yield
        parts.said.append("watch ended")

    monkeypatch.setattr(Sentry, "watch", told)
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory._sentry = sentry_of(readings)
        laboratory.run(CANDIDATE)
    assert parts.said.index("watch ended") < parts.said.index("apply baseline")
    assert parts.said.count("watch ended") == 1


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (RollbackError("broken"), RollbackError),
        (ApplyError("no"), GuardTripped),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_baseline_that_does_not_come_back_ends_the_study(monkeypatch, tmp_path, error, raised) -> None:
    readings = Readings()
    parts = Guarded(readings, low_memory, **{"apply baseline": error})
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory._sentry = sentry_of(readings)
        with pytest.raises(raised):
            laboratory.run(CANDIDATE)
        (trial,) = laboratory.store.trials("s1")
    assert trial.state is TrialState.FAILED
    assert parts.said[-1] == "trial failed"


def test_a_refused_session_leaves_no_trial(monkeypatch, tmp_path) -> None:
    readings = Readings(full_disk)
    parts = Guarded(readings, full_disk)
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory._sentry = sentry_of(readings)
        with pytest.raises(EnvironmentUnsuitable, match="guard disk"):
            laboratory.run(CANDIDATE)
        assert laboratory.store.trials("s1") == []
    assert parts.said == []


def test_a_breach_interrupts_where_a_shell_had_sigint_ignored() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert sentry_module._interrupting_signal() is signal.SIGTERM
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert sentry_module._interrupting_signal() is signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("took", "waits"), [(0.0, 2.0), (0.5, 1.5), (5.0, 0.1)])
def test_between_two_readings_it_waits_for_what_is_left_of_a_tick(monkeypatch, took, waits):
    now, waited, reader = iter([100.0, 100.0 + took]), [], SimpleNamespace(close=lambda: None)
    sentry = Sentry(reader, tick_s=2.0)
    monkeypatch.setattr(sentry_module, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(sentry, "_tick", lambda stopping: None)
    sentry._run(SimpleNamespace(is_set=lambda: bool(waited), wait=waited.append))
    assert waited == [pytest.approx(waits)]
