"""`pgdyno experiment --sweep` and --factorial, from flags to result."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.flags import two_sides
from pgdyno.cli.requests.experiment_request import Experiment, ExperimentFlags, conduct, design_of, drawn_seed
from pgdyno.cli.requests.study_request import kept_options
from pgdyno.errors import UsageError
from pgdyno.model.study import Study, StudyKind

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.study_session import StudySession
    from pgdyno.studies.sweep.run import SweepOptions

OPTION = "sweep"


def run_sweep_study(flags: ExperimentFlags, store: Store, progress: Progress) -> int:
    """Run the sweep of --sweep, or the four arms of --factorial."""
    return _sweep(_options(flags), flags, store, progress)


def resume_sweep(flags: ExperimentFlags, store: Store, progress: Progress, study: Study) -> int:
    """Go on with an interrupted sweep or factorial, `study`: its own options hold. Returns the exit code.

    From `flags` comes only what `conduct` takes for a resumed study. The study is kept in `store`; `progress` shows how
    it goes.
    """
    from pgdyno.studies.sweep.run import SweepOptions

    return _sweep(kept_options(SweepOptions, study, OPTION), flags, store, progress, study)


def _sweep(
    options: SweepOptions, flags: ExperimentFlags, store: Store, progress: Progress, resumed: Study | None = None
) -> int:
    from pgdyno.studies.sweep.result import measure

    def purpose(facts: Facts) -> str:
        options.configurations(facts)
        return options.words

    def body(session: StudySession) -> StudyResult:
        return measure(session.laboratory, options, progress.announce)

    experiment = Experiment(StudyKind.SWEEP, options.name, {OPTION: asdict(options)}, options.knobs, purpose)
    result = conduct(experiment, flags, store, progress, body, resumed)
    return int(result.exit_code)


def _options(flags: ExperimentFlags) -> SweepOptions:
    from pgdyno.model.verdict import Metric
    from pgdyno.studies.sweep.run import SweepOptions

    design, sweep = design_of(flags), flags.sweep
    knob, values = (
        two_sides(sweep, "--sweep", "KNOB=VALUE", "--sweep shared_buffers=32MB,64MB,128MB,512MB") if sweep else ("", "")
    )
    levels = tuple(value.strip() for value in values.split(",")) if sweep else ()
    if sweep and (len(levels) < 2 or not all(levels) or len(set(levels)) < len(levels)):
        raise UsageError(
            f'--sweep "{sweep}" has fewer than two values, or one of them twice',
            hint=f"Write two or more, such as --sweep {knob}=VALUE1,VALUE2; pgdyno knobs show {knob} has its range.",
        )
    return flags.into(
        SweepOptions,
        knob=knob,
        values=levels,
        factors=tuple(map(_factor, flags.factorial or ())),
        metric=Metric(flags.metric),
        min_pairs=design.min_pairs,
        max_pairs=design.max_pairs,
        seed=drawn_seed(flags),
    )


def _factor(word: str) -> tuple[str, str]:
    return two_sides(word, "--factorial", "KNOB=VALUE", "--factorial work_mem=64MB jit=off")
