"""A laboratory whose server, load and watcher are one recorder: for the order of things and every way to fail."""

import time
from contextlib import contextmanager
from types import SimpleNamespace

from exact_log import folded
from facts_from_params import make_facts
from pgdyno.model.record import Examination
from pgdyno.store.catalogue import Store
from pgdyno.trial import laboratory as module
from pgdyno.trial.laboratory import Laboratory
from simulated_laboratory import simulated_study


class Parts:
    """Session, workload, load, sampler and watcher in one: writes down what happens and raises what it is told to."""

    pid, pids, reason, failure, histograms, instances = 4711, (4711,), None, None, [], ()
    examination = Examination()
    began_at, ended_at, log, round_trips, pause_s = 0.0, 10.0, folded(), None, 0.0
    warmed = (0, None)
    driver_is_here = True

    def __init__(self, **errors):
        self.said, self.promises, self._errors, self.postgres = [], [], errors, self

    def _happens(self, what):
        self.said.append(what)
        if what in self._errors:
            raise self._errors[what]

    def apply(self, configuration, *, restart):
        self._happens("apply")
        return SimpleNamespace(fingerprint="f1", outage_s=0.5)

    def expect(self, doing, within_s=None):
        self.promises.append((doing.split()[0], within_s))

    def record_process(self, pid, kind):
        self._happens("record driver")

    def spec(self):
        return simulated_study().workload

    def reset(self, target, *, policy):
        self._happens("reset")
        return "load"

    def fetch(self, query, params=None):
        return [{"bytes": 1000}]

    def begin(self, target, dbname, plan, folder):
        self._happens("begin load")
        return self

    def poll(self):
        return self.said.count("reading") >= 1

    def wait(self, seconds, alarm=None):
        if self.poll():
            return True
        time.sleep(min(seconds, 0.01))  # a reading is due by the clock: to ask without a pause took all of a CPU
        return False

    def live(self):
        return None

    def terminate(self):
        self._happens("terminate load")

    def finish(self):
        self._happens("finish load")
        return self

    def examine(self, target, dbname, load, outcome):
        self._happens("examine")
        return self.examination

    def discard_logs(self):
        self._happens("discard logs")

    def start(self):
        self._happens("start sampling")

    def mark(self):
        self._happens("mark")

    def rows(self):
        return ()

    def stop(self):
        self._happens("stop sampling")
        return SimpleNamespace(rows=[], events=[], path={}, neighbours=(), driver_is_here=True)

    def outlook(self, outlook):
        pass

    def trial_began(self, spec, number, run_id):
        self._happens("trial began")

    def phase(self, text):
        pass

    def notice(self, text):
        self._happens("notice")

    def reading(self, *_):
        self._happens("reading")

    def trial_ended(self, trial):
        self._happens(f"trial {trial.state}")


@contextmanager
def made(monkeypatch, tmp_path, parts, look=None, *, uses_beside=False):
    monkeypatch.setattr(module, "Sampler", lambda *_, **__: parts)
    monkeypatch.setattr(module, "warm_buffers", lambda *_: parts.warmed)
    with Store.open(tmp_path / "store.db") as store:
        study = simulated_study()
        store.add_study(study)
        yield Laboratory(
            study=study,
            target=parts,
            workload=parts,
            store=store,
            facts=make_facts(18),
            session=parts,
            watcher=parts,
            folder=tmp_path,
            look=look,
            uses_beside=uses_beside,
            sleep=lambda _: None,
        )
