"""Settings, restarts and the way back on a real Patroni cluster of two nodes, also through a failover."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import psycopg
import pytest

from fix_patroni import NODES, PatroniCluster, until
from pgdyno.control import PatroniControl
from pgdyno.errors import ApplyError, ConnectError, EnvironmentUnsuitable, PolicyError, RestartError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.routes.patroni_route import PatroniRoute
from pgdyno.server.patroni_api import PatroniApi
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingState, cluster_differences, is_role_bound, read_settings
from pgdyno.targets.connect_routes import open_patroni
from pgdyno.targets.target import Target
from pgdyno.undo import activation
from pgdyno.undo.undo_patroni import undo_commands

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.xdist_group("patroni")]
SAME = "pg/test_patroni.py::test_a_failover_in_between_changes_nothing_of_the_way_back"

RELOADED = Configuration.of({"work_mem": "7MB", "random_page_cost": "1.5"})
RESTARTED = Configuration.of({"shared_buffers": "32MB", "work_mem": "7MB"})


@pytest.fixture
def target(patroni: PatroniCluster) -> Target:
    return open_patroni(PatroniApi((patroni.api["alpha"],), patroni.auth_file), patroni.conninfo)


def route_of(target: Target) -> PatroniRoute:
    assert isinstance(target.route, PatroniRoute)
    return target.route


def control_of(target: Target) -> PatroniControl:
    assert isinstance(target.control, PatroniControl)
    return target.control


def settings(patroni: PatroniCluster) -> dict[str, dict[str, SettingState]]:
    found = {}
    for name in NODES:
        with patroni.node(name).connect() as connection:
            found[name] = read_settings(connection, label=name)
    return found


def differing(patroni: PatroniCluster, before: dict[str, dict[str, SettingState]]) -> list[str]:
    now = settings(patroni)
    return [f"{node} {name}" for node in before for name in before[node] if now[node].get(name) != before[node][name]]


def identities(patroni: PatroniCluster) -> dict[str, tuple[object, ...]]:
    """Return what the settings of both nodes are and where from, but for those that go with a node's role."""
    return {
        f"{node} {name}": state.identity()[:2]
        for node, found in settings(patroni).items()
        for name, state in found.items()
        if not is_role_bound(state)
    }


def test_a_configuration_reaches_both_nodes_and_is_put_back(patroni: PatroniCluster, target: Target) -> None:
    before, document = settings(patroni), patroni.document()
    route = route_of(target)
    route.stage(RELOADED, session="s")
    route.check(RELOADED)
    activation.reload(target.postgres, target.control)
    assert patroni.show("work_mem") == {"alpha": "7MB", "beta": "7MB"}
    assert patroni.show("random_page_cost") == {"alpha": "1.5", "beta": "1.5"}
    assert route.leftovers()
    assert route.put_back() == ["random_page_cost", "work_mem"]
    assert route.put_back() == []
    assert route.leftovers() == []
    assert patroni.document() == document
    until(lambda: settings(patroni) == before, lambda: f"the nodes do not go back: {differing(patroni, before)}")


def test_the_empty_configuration_stages_the_original(patroni: PatroniCluster, target: Target) -> None:
    route = route_of(target)
    route.stage(RELOADED, session="s")
    route.stage(Configuration.of({"work_mem": "9MB"}), session="s")
    assert patroni.show("random_page_cost") == {"alpha": "4", "beta": "4"}
    route.stage(BASELINE, session="s")
    assert patroni.show("work_mem") == {"alpha": "5MB", "beta": "5MB"}
    assert route.leftovers() == []


def test_a_member_that_missed_the_way_back_is_seen_and_told(patroni: PatroniCluster, target: Target) -> None:
    """As Patroni 3.0 leaves a member that was about to start when the configuration changed."""
    document = patroni.document()
    route, other = route_of(target), next(name for name in NODES if name != patroni.leader)
    route.stage(RELOADED, session="s")
    assert route.put_back() == ["random_page_cost", "work_mem"]
    file = patroni.folder / "own" / other / "postgresql.conf"
    text = file.read_text().replace("work_mem = '5MB'", "work_mem = '7MB'")
    file.write_text(f"{text}\nrandom_page_cost = '1.5'\n")
    patroni.node(other).fetch("SELECT pg_reload_conf()")
    until(lambda: patroni.show("work_mem")[other] == "7MB", lambda: "the standby has not read its file")
    left = ("work_mem = 7MB", "random_page_cost = 1.5")
    assert sorted(route.leftovers()) == sorted(f'member "{other}" still has {each} in its file' for each in left)
    assert route.put_back() == []
    assert route.leftovers() == []
    assert patroni.document() == document
    assert patroni.show("work_mem") == {"alpha": "5MB", "beta": "5MB"}
    assert patroni.show("random_page_cost") == {"alpha": "4", "beta": "4"}


def test_a_person_puts_it_back_by_hand(patroni: PatroniCluster, target: Target, tmp_path: Path) -> None:
    """What UNDO.md says: originals and additions go back, what somebody else has set since stays."""
    document, route, journal = patroni.document(), route_of(target), tmp_path / "journal.jsonl"
    tried = Configuration.of({"work_mem": "7MB", "random_page_cost": "1.5", "cpu_tuple_cost": "0.02"})
    journal.write_text(json.dumps({"settings": dict(tried)}, separators=(",", ":")))
    route.stage(tried, session="s")
    route.api.patch({"postgresql": {"parameters": {"cpu_tuple_cost": "0.03"}}})
    try:
        script = "\n".join(undo_commands(route.record(), journal))
        done = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, timeout=60, check=True)
        assert done.stderr == ""
        found = route.api.dynamic_configuration()["postgresql"]
        assert isinstance(found, dict)
        assert found["parameters"] == {**route.originals, "cpu_tuple_cost": "0.03"}
    finally:
        route.put_back()
        route.api.patch({"postgresql": {"parameters": {"cpu_tuple_cost": None}}})
    assert patroni.document() == document


def test_what_somebody_else_changes_meanwhile_stays(patroni: PatroniCluster, target: Target) -> None:
    """A parameter that pgdyno may set, and one that the session has set itself."""
    document = patroni.document()
    route = route_of(target)
    route.stage(RELOADED, session="s")
    theirs: dict[str, object] = {"effective_cache_size": "3GB", "random_page_cost": "2.5"}
    route.api.patch({"postgresql": {"parameters": theirs}})
    try:
        with pytest.raises(ApplyError, match="random_page_cost was set by somebody else"):
            route.stage(Configuration.of({"random_page_cost": "1.2"}), session="s")
        assert route.put_back() == ["work_mem"]
        assert route.leftovers() == []
        found = route.api.dynamic_configuration()["postgresql"]
        assert isinstance(found, dict)
        assert found["parameters"].items() >= theirs.items()
    finally:
        route.api.patch({"postgresql": {"parameters": dict.fromkeys(theirs)}})
    assert patroni.document() == document


def test_a_restart_knob_comes_into_force_on_both_and_goes_again(patroni: PatroniCluster, target: Target) -> None:
    before, document = settings(patroni), patroni.document()
    route, control = route_of(target), control_of(target)
    route.stage(RESTARTED, session="s")
    route.check(RESTARTED)
    assert patroni.show("shared_buffers") == {"alpha": "24MB", "beta": "24MB"}
    leader = patroni.leader
    activation.restart(target.postgres, control)
    assert patroni.show("shared_buffers") == {"alpha": "32MB", "beta": "32MB"}
    assert patroni.leader == leader
    route.put_back()
    activation.restart(target.postgres, control)
    patroni.wait_whole()
    assert patroni.document() == document
    until(lambda: settings(patroni) == before, lambda: f"the nodes do not go back: {differing(patroni, before)}")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            "switchover",
            marks=pytest.mark.night(SAME),
        ),
        "crash",
    ],
)
def test_a_failover_in_between_changes_nothing_of_the_way_back(
    patroni: PatroniCluster, target: Target, how: str
) -> None:
    before, document = identities(patroni), patroni.document()
    leader = patroni.leader
    of_leader = settings(patroni)[leader]
    route, control = route_of(target), control_of(target)
    route.stage(RESTARTED, session="s")
    activation.restart(target.postgres, control)
    if how == "switchover":
        patroni.switch_over()
        assert patroni.leader != leader
    else:
        patroni.crash_leader()
    assert control.is_running()
    row = target.postgres.fetch("SELECT pg_is_in_recovery() AS r, inet_server_port() AS port")[0]
    assert row == {"r": False, "port": patroni.ports[patroni.leader]}
    assert patroni.show("work_mem") == {"alpha": "7MB", "beta": "7MB"}
    different = cluster_differences(of_leader, settings(patroni)[patroni.leader])
    assert {each.name for each in different} >= {"shared_buffers", "work_mem"}
    again = PatroniRoute.from_record(json.loads(json.dumps(route.record())), postgres=target.postgres)
    again.put_back()
    activation.restart(target.postgres, control)
    patroni.wait_whole()
    assert again.leftovers() == []
    assert patroni.document() == document
    assert identities(patroni).items() ^ before.items() == set()
    assert cluster_differences(of_leader, settings(patroni)[patroni.leader]) == ()


def test_knobs_that_standbys_need_first_are_refused(patroni: PatroniCluster, target: Target) -> None:
    route = route_of(target)
    with pytest.raises(EnvironmentUnsuitable, match="max_connections cannot be tried while") as caught:
        route.stage(Configuration.of({"max_connections": "60"}), session="s")
    assert next(name for name in NODES if name != patroni.leader) in caught.value.message
    assert route.leftovers() == []


def test_without_a_standby_they_may_be_set_and_come_from_the_command_line(
    patroni: PatroniCluster, target: Target
) -> None:
    route, control = route_of(target), control_of(target)
    asked = Configuration.of({"max_connections": "30"})  # less than before: a standby that comes back can live with it
    standby = patroni.end_standby()
    try:
        route.stage(asked, session="s")
        route.check(asked)
        activation.restart(target.postgres, control)
        with target.postgres.connect() as connection:
            state = read_settings(connection, label="leader")["max_connections"]
        assert state.setting == "30"
        assert state.source == "command line"
        assert state.source in route.accepted_sources
        assert not state.pending_restart
        assert route.put_back() == ["max_connections"]
        activation.restart(target.postgres, control)
    finally:
        route.put_back()
        patroni.start_node(standby)
    assert patroni.show("max_connections") == {"alpha": "40", "beta": "40"}


def test_a_value_that_the_server_does_not_take_is_named(target: Target) -> None:
    route = route_of(target)
    asked = Configuration.of({"work_mem": "plenty", "random_page_cost": "1.5"})
    route.stage(asked, session="s")
    with pytest.raises(ApplyError, match="work_mem"):
        route.check(asked)
    assert route.put_back() == ["random_page_cost", "work_mem"]


@pytest.mark.parametrize("name", ["no_such_knob", "port", "fsync", "primary_conninfo", "app.secret"])
def test_what_is_not_ours_is_refused_before_anything_is_written(target: Target, name: str) -> None:
    route = route_of(target)
    with pytest.raises(PolicyError, match=name):
        route.stage(Configuration.of({name: "1", "work_mem": "7MB"}), session="s")
    assert route.leftovers() == []


def test_a_configuration_that_does_not_start_fails_on_the_standby_first(
    patroni: PatroniCluster, target: Target
) -> None:
    route, control = route_of(target), control_of(target)
    leader = patroni.leader
    started = patroni.node(leader).fetch("SELECT pg_postmaster_start_time() AS t")
    route.stage(Configuration.of({"shared_buffers": "900GB"}), session="s")
    with pytest.raises(RestartError, match=next(name for name in NODES if name != leader)):
        control.restart()
    assert patroni.node(leader).fetch("SELECT pg_postmaster_start_time() AS t") == started
    route.put_back()
    patroni.wait_whole()
    control.restart()
    patroni.wait_whole()
    assert patroni.show("shared_buffers") == {"alpha": "24MB", "beta": "24MB"}


def test_what_somebody_else_sets_meanwhile_stays(patroni: PatroniCluster, target: Target) -> None:
    route = route_of(target)
    document = patroni.document()
    route.stage(RELOADED, session="s")
    patroni.ask("/config", "PATCH", {"maximum_lag_on_failover": 77, "postgresql": {"parameters": {"app.name": "x"}}})
    route.put_back()
    found = patroni.document()
    assert isinstance(found, dict)
    assert found["maximum_lag_on_failover"] == 77
    assert found["postgresql"]["parameters"]["app.name"] == "x"
    away = {"maximum_lag_on_failover": 1 << 30, "postgresql": {"parameters": {"app.name": None}}}
    patroni.ask("/config", "PATCH", away)
    assert patroni.document() == document


def test_the_api_refuses_the_wrong_password_without_showing_it(
    patroni: PatroniCluster, target: Target, tmp_path: Path
) -> None:
    wrong = tmp_path / "auth"
    wrong.write_text("pgdyno:not-this-one\n")
    api = PatroniApi((patroni.api["alpha"],), wrong)
    with pytest.raises(EnvironmentUnsuitable, match="refuses PATCH /config: 401") as caught:
        PatroniRoute.open(api, target.postgres)
    assert "--patroni-auth" in (caught.value.hint or "")
    assert "not-this-one" not in f"{caught.value} {caught.value.detail} {json.dumps(api.record())}"


def test_the_loss_of_one_endpoint_does_not_matter(patroni: PatroniCluster) -> None:
    api = PatroniApi(("http://127.0.0.1:1", patroni.api["beta"]), patroni.auth_file)
    assert {member.name for member in api.members()} == set(NODES)
    assert set(api.with_members().endpoints) >= set(patroni.api.values())
    with pytest.raises(ConnectError, match="no Patroni API"):
        PatroniApi(("http://127.0.0.1:1",)).members()


def test_a_stop_is_refused_and_the_control_sees_the_cluster(target: Target) -> None:
    control = control_of(target)
    with pytest.raises(RestartError, match="cannot be stopped"):
        control.stop()
    assert control.is_running()
    control.start()
    gone = PatroniControl(PatroniApi(("http://127.0.0.1:1",)), Postgres("host=127.0.0.1 port=1"))
    assert not gone.is_running()


def test_the_role_needs_to_see_the_files(patroni: PatroniCluster, target: Target) -> None:
    target.postgres.execute("CREATE ROLE plain LOGIN")
    try:
        until(lambda: _can_login(patroni), lambda: "the role did not reach the nodes")
        plain = open_patroni(PatroniApi((patroni.api["alpha"],), patroni.auth_file), "user=plain dbname=postgres")
        route = route_of(plain)
        route.stage(RELOADED, session="s")
        with pytest.raises(EnvironmentUnsuitable, match="pg_file_settings"):
            route.check(RELOADED)
        route.put_back()
    finally:
        target.postgres.execute("DROP ROLE plain")


def _can_login(patroni: PatroniCluster) -> bool:
    try:
        for name in NODES:
            psycopg.connect(f"host=127.0.0.1 port={patroni.ports[name]} user=plain dbname=postgres").close()
    except psycopg.Error:
        return False
    return True
