"""A study that cannot go on because the machine is another one says what changed."""

from dataclasses import replace

import pytest

from facts_from_params import make_facts
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model import linux
from pgdyno.model.facts import KernelFact, Unknown
from pgdyno.model.study import StudyKind
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.reference_use import require_same_server
from pgdyno.studies.session.environment_change import MOST_NAMED, environment_changes, facts_image, settings_changes
from pgdyno.studies.session.study_session import _refuse_other
from study_example import make_study

FACTS = make_facts(18)


def kernel(**values):
    return replace(FACTS, kernel={name: KernelFact(name, value) for name, value in values.items()})


@pytest.mark.requirement("R-EXP-09")
def test_a_study_is_not_resumed_elsewhere_and_says_what_is_another(tmp_path):
    before, now = kernel(**{linux.SWAPPINESS: "60"}), kernel(**{linux.SWAPPINESS: "10"})
    study = replace(
        make_study(StudyKind.MATRIX, "m1"), environment=before.environment_hash(), facts=facts_image(before)
    )
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(study)
        kept = store.study("m1")
    _refuse_other(kept, before, study.workload, other_environment=False)
    with pytest.raises(EnvironmentUnsuitable) as caught:
        _refuse_other(kept, now, study.workload, other_environment=False)
    assert caught.value.detail == f"{linux.SWAPPINESS} was 60, is 10."


def test_the_words_name_what_the_hash_covers_and_nothing_else():
    def words(now):
        told = environment_changes(facts_image(FACTS), facts_image(now))
        assert (FACTS.environment_hash() == now.environment_hash()) == (told is None)
        return told

    host, server = FACTS.host, FACTS.server
    assert words(FACTS) is None
    assert words(replace(FACTS, host=replace(host, data_disk_free_bytes=1, container="Docker", sockets=9))) is None
    assert words(kernel(**{linux.SWAP_AREA: "1"})) is None
    assert words(kernel(**{linux.GOVERNOR: Unknown("root may")})) is None
    assert words(replace(FACTS, host=replace(host, cores=64))) == f"cores was {host.cores}, is 64."
    assert words(replace(FACTS, server=replace(server, version="18.9"))) == (
        f"PostgreSQL's version was {server.version}, is 18.9."
    )
    assert words(replace(FACTS, host=replace(host, swap_total_bytes=Unknown("no")))).endswith("is not known.")
    many = words(kernel(**{f"vm.x{number}": "1" for number in range(MOST_NAMED + 2)}))
    assert many.endswith("; and 2 more.")
    assert environment_changes({}, {}) is None, "an image of a study that was imported"


def test_no_secret_of_a_setting_gets_into_the_store():
    kept = FACTS
    for name, value in (
        ("primary_conninfo", "host=a user=b password=sesame"),
        ("archive_command", "TOKEN=sesame curl -u me:sesame https://b/%f"),
        ("ssl_passphrase_command", "echo sesame"),
        ("app.payments", "sesame"),
        ("cluster_name", "one"),
    ):
        row = replace(FACTS.settings["cluster_name"], name=name, setting=value, source="configuration file")
        kept = replace(kept, settings={**kept.settings, name: row})
    image = facts_image(kept)
    assert "sesame" not in str(image)
    assert image["settings"]["cluster_name"] == "one"


def with_setting(name, value):
    row = replace(FACTS.settings[name], setting=value, source="configuration file")
    return replace(FACTS, settings={**FACTS.settings, name: row})


def test_a_study_is_not_resumed_under_other_settings_and_names_them_with_their_values(tmp_path):
    before, now = with_setting("work_mem", "8192"), with_setting("work_mem", "65536")
    study = replace(make_study(StudyKind.TUNE, "t1"), environment=FACTS.environment_hash(), facts=facts_image(before))
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(study)
        kept = store.study("t1")
    for facts, words in ((now, "work_mem was 8MB, is 64MB."), (FACTS, "work_mem was 8MB, is 4MB.")):
        with pytest.raises(EnvironmentUnsuitable) as caught:
            _refuse_other(kept, facts, study.workload, other_environment=False)
        assert (caught.value.detail, "version of pgdyno" in str(caught.value)) == (words, False)
    _refuse_other(kept, now, study.workload, other_environment=True)
    _refuse_other(kept, before, study.workload, other_environment=False)


def test_what_is_no_setting_of_the_server_for_its_work_keeps_nobody_from_resuming():
    image = facts_image(FACTS)
    assert settings_changes(image, FACTS) is None
    assert settings_changes(image, with_setting("application_name", "psql")) is None
    assert settings_changes({}, with_setting("work_mem", "1")) is None, "an image of a study that was imported"
    assert settings_changes(image, with_setting("work_mem", "1024")) == "work_mem was 4MB, is 1MB."


def resumed_tune(study, facts):
    _refuse_other(study, facts, study.workload, other_environment=False)


@pytest.mark.requirement("R-EXP-09")
@pytest.mark.parametrize("go_on", [resumed_tune, require_same_server])
def test_two_servers_of_one_host_and_version_share_an_environment_and_no_study(go_on):
    """What was measured on one would be compared with what is measured on the other."""
    here = replace(FACTS, server=replace(FACTS.server, system_identifier="7", data_directory="/data"))
    study = replace(make_study(StudyKind.LIVE), environment=here.environment_hash(), facts=facts_image(here))
    go_on(study, here)
    there = replace(here, server=replace(here.server, system_identifier="8"))
    assert there.environment_hash() == study.environment
    with pytest.raises(EnvironmentUnsuitable, match="begun on another server") as caught:
        go_on(study, there)
    assert caught.value.detail == "system_identifier was 7, is 8."
    unknown = Unknown("not shown")
    go_on(study, replace(here, server=replace(here.server, system_identifier=unknown, data_directory=unknown)))


@pytest.mark.parametrize("go_on", [resumed_tune, require_same_server])
def test_pairs_of_other_settings_are_not_gone_on_with(go_on):
    """A is the server as it is: the pairs from before a colleague's change had another one."""
    study = replace(make_study(StudyKind.LIVE), environment=FACTS.environment_hash(), facts=facts_image(FACTS))
    row = FACTS.settings["work_mem"]
    changed = replace(row, setting="65536", source="configuration file")
    now = replace(FACTS, settings={**FACTS.settings, "work_mem": changed})
    with pytest.raises(EnvironmentUnsuitable, match="are not those that study") as caught:
        go_on(study, now)
    assert "work_mem was 4MB, is 64MB" in str(caught.value.detail)
