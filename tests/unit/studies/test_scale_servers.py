"""Levels with servers of their own: what a plan says of them, how runs interleave, what each study is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from facts_from_params import make_facts
from pgdyno.cli import scale as verb
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.results.scale import Constancy, ScaleResult
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Trial, TrialSpec, TrialState
from pgdyno.report.drawing import markdown
from pgdyno.report.facts_image import FactsImage
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.scale import run as course
from pgdyno.studies.scale.plan import ScalePlan
from pgdyno.studies.scale.runs import BottleneckWords
from pgdyno.studies.scale.servers import (
    SeenServer,
    request_of,
    require_apart,
    require_named,
    require_proportion,
)
from pgdyno.studies.scale.words import plan_lines, proportion_text
from pgdyno.studies.session.guarding import halting
from pgdyno.trial.company import Company
from scale_example import PLAN, made_runs, planned
from study_example import make_study

BIG, SMALL = "host=big dbname=postgres", "host=small dbname=postgres"
BARE = PLAN[: PLAN.index("[clients]")]
HOSTS = (
    BARE.replace("cpus = 0.3", f'target = "{SMALL}"')
    .replace("cpus = 0.5\n", f'target = "{BIG}"\n')
    .replace("cpus = 0.625", f'target = "{BIG}"')
    .replace("cpus = 0.75", "")
)


def test_each_level_has_its_server_and_that_of_the_reference_comes_first() -> None:
    plan = planned(HOSTS)
    assert [one.target for one in plan.levels] == [SMALL, BIG, BIG, ""]
    assert plan.targets == (BIG, SMALL, "")
    assert [plan.runs_on(one) for one in plan.targets] == [12, 6, 6]
    assert planned().targets == ("",)
    assert planned().runs_on("") == planned().runs
    assert shaped(ScalePlan, plain(plan)) == plan
    text = "\n".join(plan_lines(plan, "three servers", 600.0, None))
    assert f"level 60 %: 240 transactions/s on {SMALL}" in text
    assert "only one is under load at a time" in text
    assert (Path(__file__).parents[3] / "examples/scale/hosts.toml").read_text().count("target = ") == len(
        planned((Path(__file__).parents[3] / "examples/scale/hosts.toml").read_text()).targets
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HOSTS.replace(f'"{SMALL}"', f'"{SMALL}"\ncpus = 0.3'), "line 23: level 1: target and a limit cannot"),
        (HOSTS.replace(SMALL, f"{SMALL} password=x"), "line 23: level 1: target has a password in it"),
        (HOSTS.replace(SMALL, "host small"), "line 23: level 1: "),
        (HOSTS.replace("percent = 150", "percent = 150\ncpus = 1"), "line 21: some levels have a limit on cpus"),
        (HOSTS + "[clients]\nconnections = [1, 2]\ncpus = 1\n", "line 21: some levels have a target of their own"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_one_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        planned(text)
    assert said in str(caught.value)
    assert caught.value.hint


class Made:
    """A laboratory that measures nothing; all of them write into one list of what ran in which order."""

    company = Company()

    is_replaying = False

    def __init__(self, name: str, ran: list[tuple[str, str]]) -> None:
        self.name, self.ran, self.expected = name, ran, 0

    def expect(self, trials: int) -> None:
        self.expected = trials

    def run(self, spec: TrialSpec, *, plan: LoadPlan, workload: object) -> Trial:
        self.ran.append((self.name, spec.arm))
        return Trial(len(self.ran), self.name, spec, TrialState.COMPLETE)


def test_runs_of_all_servers_are_interleaved_each_on_its_own() -> None:
    plan, ran = planned(HOSTS + "[clients]\nconnections = [1, 2]\n"), list[tuple[str, str]]()
    study = SimpleNamespace(workload=None, plan=SimpleNamespace(reset="auto"))
    loaded: dict[str, int] = dict.fromkeys(plan.targets, 0)

    def stand(target: str) -> Any:
        def ready(*_: object, **__: object) -> None:
            loaded[target] += 1

        data = SimpleNamespace(make_ready=ready)
        return SimpleNamespace(laboratory=Made(target, ran), study=study, data=data, facts=None)

    stands = {one: stand(one) for one in plan.targets}
    assert not course.run_scale(stands, plan, halting(1e6, None), lambda _: None)
    assert {one: made.laboratory.expected for one, made in stands.items()} == {BIG: 12, SMALL: 6, "": 18}
    where = {arm: {target for target, other in ran if other == arm} for _, arm in ran}
    assert where["level 60 %"] == {SMALL}
    assert where["level 100 %"] == where["level 125 %"] == {BIG}
    assert where["level 150 %"] == where["2 connections"] == {""}
    each = len(ran) // plan.repetitions
    assert all({*ran[:each]} == {*ran[begin : begin + each]} for begin in range(0, len(ran), each))
    assert all(loaded.values()), "data are loaded on every server"


def study_of(name: str) -> Study:
    study = replace(make_study(StudyKind.SCALE), state=StudyState.COMPLETE)
    return replace(study, id=f"20261126-120000-scale-{name}", target=name, environment=f"environment of {name}")


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> tuple[ScaleResult, dict[str, Study], Any]:
    """The result of the levels, with the study of each server and a store that has their runs."""
    plan = planned(HOSTS)
    studies = {BIG: study_of("big"), SMALL: study_of("small"), "": study_of("sandbox")}
    targets = {one.name: one.target for one in plan.levels}
    trials = [
        replace(one.trial, study_id=studies[targets[one.trial.spec.factors["level"]]].id) for one in made_runs(plan)
    ]
    store = SimpleNamespace(
        trials=lambda study: [one for one in trials if one.study_id == study],
        samples=lambda *_: (),
        histograms=lambda _: (),
    )
    asked = list[bool]()

    def evidence(_store: object, study: Study, trial: Trial) -> Any:
        asked.append(study.id == trial.study_id)
        return SimpleNamespace(bottleneck=None)

    monkeypatch.setattr(course, "read_evidence", evidence)
    monkeypatch.setattr(course, "bottleneck_words", lambda *_: BottleneckWords(words="nothing"))
    result = course.scale_result(store, studies, plan, "")  # type: ignore[arg-type]
    assert asked
    assert all(asked), "what held a run back is read of its own study"
    return result, studies, store


def test_levels_are_compared_over_servers_and_say_where_they_ran(
    whole: tuple[ScaleResult, dict[str, Study], Any],
) -> None:
    result, studies, store = whole
    assert (result.study, result.part_of) == (studies[BIG].id, "")
    assert [one.standing for one in result.levels] == [Constancy.CONSTANT] * 4
    assert all(check.pairs == 6 for one in result.levels for check in one.checks)
    assert [(one.target, one.study) for one in result.levels] == [
        ("small", studies[SMALL].id), ("big", ""), ("big", ""), ("sandbox", studies[""].id),
    ]  # fmt: skip
    page = page_of(result, studies[BIG])
    assert "| 60 % | small | environment of small | 20261126-120000-scale-small |" in page

    part = course.part_of(result, store, studies[SMALL])
    assert (part.study, part.part_of, part.environment) == (studies[SMALL].id, result.study, "environment of small")
    assert [(one.percent, one.study, one.standing) for one in part.levels] == [(60.0, "", Constancy.CONSTANT)]
    assert part.exit_code == 0
    assert sum(part.trials.values()) == 6
    assert f"study {result.study} has all, and the reference" in page_of(part, studies[SMALL])
    assert shaped(ScaleResult, plain(part)) == part


def page_of(result: ScaleResult, study: Study) -> str:
    told = replace(study, result=result)
    named = [name for name, _ in kind_of(StudyKind.SCALE).shown(told, ())]
    assert all(name in {f"level {one.percent:g} %" for one in result.levels if not one.study} for name in named)
    return markdown.render(kind_of(StudyKind.SCALE).page(StudyRecord(told, ())))


def test_a_server_that_nobody_named_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    target: Any = SimpleNamespace(name="big:5432", disposable=False)
    with pytest.raises(EnvironmentUnsuitable, match='no level is run on "big:5432"') as caught:
        require_named(target)
    listed = Path(str(caught.value.hint).rsplit(" into ", 1)[1].rstrip("."))
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text("big:5432\n")
    listed.chmod(0o600)
    require_named(target)
    require_named(SimpleNamespace(name="sandbox", disposable=True))  # type: ignore[arg-type]


def test_one_server_by_two_names_is_refused() -> None:
    big, small = SeenServer("big", "1.5"), SeenServer("small", "2.5")
    require_apart({BIG: big, SMALL: small})
    with pytest.raises(UsageError, match='"host=big dbname=postgres" and the study\'s own "big" are one server'):
        require_apart({BIG: big, "": replace(big, started="3.5")})
    with pytest.raises(UsageError, match='"host=big dbname=postgres" and "host=small dbname=postgres" are one'):
        require_apart({BIG: big, SMALL: replace(small, started="1.5")})


def test_a_resume_of_one_servers_study_goes_on_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    options = {"whole": {"scale": plain(planned(HOSTS))}, "part": {verb.PART: {"of": "whole", "target": SMALL}}}

    def resumable(_store: object, name: str, *_kinds: StudyKind) -> Any:
        asked.append(name)
        return SimpleNamespace(id=name, options=options[name])

    monkeypatch.setattr(verb, "resumable", resumable)
    monkeypatch.setattr(verb, "resumed_request", lambda _flags, study, **_course: study.id)
    request, plan = verb._resumed(None, SimpleNamespace(resume="part", yes=True, max_size=None))  # type: ignore[arg-type]
    assert (asked, request, plan) == (["part", "whole"], "whole", planned(HOSTS))


def facts_with(cores: int | Unknown) -> Facts:
    found = make_facts(18)
    return replace(found, host=replace(found.host, cores=cores))


def test_servers_whose_cpus_do_not_go_with_the_load_are_refused() -> None:
    plan = planned(HOSTS)
    hidden = Unknown("it is another host")
    require_proportion(planned(HOSTS.replace("percent = 125", "percent = 102")),
                       {SMALL: facts_with(6), BIG: facts_with(10), "": facts_with(15)})  # fmt: skip
    require_proportion(plan, {SMALL: facts_with(6), BIG: facts_with(hidden), "": facts_with(hidden)})
    with pytest.raises(
        UsageError, match="not in proportion: 60 % on 6, 100 % on 10, 125 % on 10, 150 % on 15"
    ) as caught:
        require_proportion(plan, {SMALL: facts_with(6), BIG: facts_with(10), "": facts_with(15)})
    assert "proportion = false" in str(caught.value.hint)
    free = planned(HOSTS.replace("repetitions = 6", "repetitions = 6\nproportion = false"))
    require_proportion(free, {SMALL: facts_with(6), BIG: facts_with(10), "": facts_with(15)})
    require_proportion(planned(), {"": facts_with(2)})


def test_the_cpus_of_the_hosts_are_on_the_page_with_whether_they_go_with_the_load(
    whole: tuple[ScaleResult, dict[str, Study], Any],
) -> None:
    result, _, _ = whole
    host = FactsImage({"cores": 8, "memory_limit_bytes": 16 << 30})
    first = course.on_host(result.levels[0], host)
    assert (first.cpus, first.memory_bytes) == (8.0, 16 << 30)
    assert first.busy == pytest.approx((first.path_s or 0) * (first.throughput or 0) / 8)
    assert course.on_host(result.levels[0], FactsImage({})).cpus is None

    def said(*cpus: float | None) -> str:
        levels = tuple(replace(one, cpus=count) for one, count in zip(result.levels, cpus, strict=True))
        return proportion_text(replace(result, levels=levels))

    assert said(6, 10, 12.5, 15) == "Their CPUs go with the load: 60 % on 6, 100 % on 10, 125 % on 12.5, 150 % on 15."
    assert "do NOT go with the load, which the plan allows" in said(8, 8, 8, 8)
    assert said(None, None, None, 8).startswith(
        "Whether CPUs go with the load is unknown. The CPUs at 60 %, 100 %, 125 %"
    )


def test_a_server_of_another_host_is_reached_by_ssh_and_told_from_one_of_the_same_name() -> None:
    text = HOSTS.replace(f'target = "{SMALL}"', f'target = "{BIG}"\nhost = "ssh://dba@one"', 1)
    plan = planned(text)
    assert plan.targets == (BIG, f"{BIG} on ssh://dba@one", "")
    there = request_of(plan, f"{BIG} on ssh://dba@one")
    assert (there.dsn, there.host) == (BIG, "ssh://dba@one")
    assert request_of(plan, BIG).host is None
    for host, said in (("one", "is not an address of ssh"), ("ssh://a:b@one", "with a password")):
        with pytest.raises(UsageError, match=said) as caught:
            planned(text.replace("ssh://dba@one", host))
        assert "line 24: level 1: " in str(caught.value)
    with pytest.raises(UsageError, match="line 23: level 1: host needs a target"):
        planned(PLAN.replace("cpus = 0.3", 'host = "ssh://one"'))
