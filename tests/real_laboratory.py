"""A laboratory on a real sandbox with a store of its own, for custom scripts: what a trial leaves can be looked at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pgdyno.model.configuration import BASELINE
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Role, Trial, TrialSpec
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.environment_change import facts_image
from pgdyno.targets.inspect import read_facts
from pgdyno.trial.assess import Bounds
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.run_evidence import read_evidence
from pgdyno.workloads.registry import make_workload

ANY_MACHINE = Bounds(foreign_cpu_pct=1e6, steal_pct=100.0)
"""Tests run beside others: nothing is disturbed."""
ITEMS = (
    "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL); "
    "INSERT INTO item SELECT i, 0 FROM generate_series(1, 2000) i;"
)


class Silent:
    """A watcher that says nothing, and lets the test do something once, as soon as the load runs."""

    def __init__(self, when_loaded: Callable[[], object] | None = None) -> None:
        self._when_loaded = when_loaded

    def reading(self, *_: object) -> None:
        then, self._when_loaded = self._when_loaded, None
        if then is not None:
            then()

    def __getattr__(self, name):
        return lambda *_: None


class RealLaboratory:
    """Runs one custom script after another on the same sandbox."""

    def __init__(self, sandbox: Sandbox, store: Store, folder: Path) -> None:
        self.target = sandbox.target()
        self.store = store
        self.folder = folder
        self.facts = read_facts(self.target)
        self._made: list = []

    def run(
        self,
        script: str,
        plan: LoadPlan,
        *,
        init: str = ITEMS,
        name: str = "bench",
        when_loaded: Callable[[], object] | None = None,
    ) -> Trial:
        """Run a script once as a study of its own and return the trial; `when_loaded` is called as its load begins."""
        (self.folder / "load.sql").write_text(script)
        (self.folder / "init.sql").write_text(init)
        parameters = {"scripts": str(self.folder / "load.sql"), "init": str(self.folder / "init.sql")}
        workload = make_workload("custom", parameters)
        workload.prepare(self.target, progress=lambda _: None)
        self._made.append(workload)
        study = Study(
            id=f"s{len(self._made)}",
            kind=StudyKind.BENCH,
            name=name,
            state=StudyState.RUNNING,
            created_at=1.0,
            target=self.target.name,
            environment="e",
            facts=facts_image(self.facts),
            workload=workload.spec(),
            plan=plan,
        )
        self.store.add_study(study)
        laboratory = Laboratory(
            study=study,
            target=self.target,
            workload=workload,
            store=self.store,
            facts=self.facts,
            session=None,
            watcher=Silent(when_loaded),
            folder=self.folder / study.id,
            bounds=replace(ANY_MACHINE, min_window_s=1.0),
        )
        return laboratory.run(TrialSpec(BASELINE, Role.ARM, "bench", 1, 0))

    def evidence(self, trial: Trial) -> RunEvidence:
        """Return what the store says of the trial."""
        return read_evidence(self.store, self.store.study(trial.study_id), trial)

    def drop(self) -> None:
        """Drop what the runs loaded."""
        for workload in self._made:
            workload.drop(self.target, template=True)


@contextmanager
def real_laboratory(sandbox: Sandbox, folder: Path) -> Iterator[RealLaboratory]:
    """Yield a laboratory with a store in `folder`; its databases are dropped at the end."""
    with Store.open(folder / "store.db") as store:
        made = RealLaboratory(sandbox, store, folder)
        try:
            yield made
        finally:
            made.drop()
