"""What a bundle keeps in, and what is refused of a stranger's file; never is anything left of a refused one."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.samples import Event, HistogramRow
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store import bundle_format
from pgdyno.store.bundle_format import digest, open_bundle
from pgdyno.store.catalogue import Store
from pgdyno.studies.bundles import export_studies, import_studies, read_manifest

FACTS = {
    "host": {"cores": 2},
    "settings": {
        "primary_conninfo": "host=db1 user=r password=hunter2",
        "ssl_passphrase_command": "echo hunter2",
        "archive_command": "AWS_SECRET=hunter2 push %p",
        "work_mem": "4096",
    },
}
OPTIONS = {"seed": 1, "target": {"dsn": "postgresql://u:hunter2@db1/x", "restart_command": ["sudo", "hunter2"]}}


def store_with_study(folder: Path) -> Store:
    store = Store.open(folder / "here.db")
    workload = WorkloadSpec("custom", {"script": "postgresql://u:hunter2@db1/x"}, "f00d", "d", False)
    plan = LoadPlan(1, 1, 1.0, 1.0)
    store.add_study(
        Study("s1", StudyKind.BENCH, "n", StudyState.COMPLETE, 1.0, "db1", "e1", FACTS, workload, plan, OPTIONS)
    )
    run = store.begin_trial("s1", TrialSpec(Configuration.of({"work_mem": "4MB"}), Role.ARM, "bench", 1, 0))
    store.add_histograms(run, [HistogramRow(1, 0, "s", 5, 9, 0, 0, 0, b"\x00\x01")])
    store.add_events(run, [Event(1.0, "error", "could not connect to postgresql://u:hunter2@db1/x")])
    store.finish_trial(run, Outcome(TrialState.COMPLETE, throughput=10.0))
    return store


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    with store_with_study(folder) as store:
        export_studies(store, ["s1"], folder / "a.pgdyno")
    return folder / "a.pgdyno"


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(path: Path, members: dict[str, bytes], *, seal: bool = True) -> Path:
    """Write the members, with hashes, sizes and seal that agree with them: a forger's work."""
    manifest = json.loads(members["manifest.json"])
    if seal:
        for member in manifest["members"]:
            text = members.get(f"{member['study']}/{member['table']}.jsonl", b"")
            member |= {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text), "rows": text.count(b"\n")}
        known = [bundle_format.BundleMember(**{**member, "columns": ()}) for member in manifest["members"]]
        manifest["whole"] = digest(known)
        text = json.dumps(manifest).encode()
        members = {**members, "manifest.json": text, "manifest.sha256": hashlib.sha256(text).hexdigest().encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def refused(path: Path, folder: Path, match: str, detail: str = "") -> None:
    with Store.open(folder / "there.db") as store:
        with pytest.raises(UsageError, match=match) as caught:
            import_studies(store, path)
        assert store.studies() == []
    assert detail in (caught.value.detail or "")


def test_the_same_studies_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    with store_with_study(tmp_path) as store:
        export_studies(store, ["s1", "s1", "last"], tmp_path / "b.pgdyno")
        with pytest.raises(UsageError, match="exists"):
            export_studies(store, ["s1"], tmp_path / "b.pgdyno")
    assert (tmp_path / "b.pgdyno").read_bytes() == bundle.read_bytes()


@pytest.mark.requirement("R-SAF-10")
def test_no_password_and_no_way_to_the_server_leaves(bundle: Path) -> None:
    everything = b"".join(contents(bundle).values())
    assert b"hunter2" not in everything
    assert b"restart_command" not in everything
    assert b"db1" in everything


def test_what_the_manifest_tells(bundle: Path) -> None:
    manifest = read_manifest(bundle)
    assert [(one.id, one.kind, one.trials, one.environment) for one in manifest.studies] == [("s1", "bench", 1, "e1")]
    assert {member.table for member in manifest.members} == {"study", "trial", "trial_setting", "histogram", "event"}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(data=st.data())
def test_a_changed_byte_or_a_cut_is_refused_or_harmless(bundle: Path, tmp_path: Path, data: st.DataObject) -> None:
    whole = bundle.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    cut = data.draw(st.booleans())
    changed = whole[:at] if cut else whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    path = tmp_path / "changed.pgdyno"
    path.write_bytes(changed)
    try:
        found = read_manifest(path)
    except UsageError:
        return
    assert found == read_manifest(bundle)  # a byte of ZIP's own, such as a time, that nothing depends on


def table(name: str, change: Callable[[list[Any]], object]) -> Callable[[dict[str, bytes]], None]:
    def apply(members: dict[str, bytes]) -> None:
        rows = [json.loads(line) for line in members[f"s1/{name}.jsonl"].splitlines()]
        change(rows)
        members[f"s1/{name}.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    return apply


def place(name: str, row: int, column: int, value: object) -> Callable[[dict[str, bytes]], None]:
    def change(rows: list[Any]) -> None:
        rows[row][column] = value

    return table(name, change)


FORGERIES: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "a text where a number belongs": (place("trial", 0, 4, "x"), "is damaged"),
    "a number that no column holds": (place("trial", 0, 4, 2**63), "is damaged"),
    "a state that is none": (place("trial", 0, 8, "splendid"), "is damaged"),
    "an event of a trial that is not in it": (place("event", 0, 0, 77), "is damaged"),
    "a trial of another study": (place("trial", 0, 1, "s2"), "is damaged"),
    "a study with another id": (place("study", 0, 0, "s2"), "is damaged"),
    "bytes that are not base64": (place("histogram", 0, 9, "%%%"), "is damaged"),
    "a NUL in a text": (place("event", 0, 3, "a\0b"), "is damaged"),
    "a missing cell": (table("event", lambda rows: rows[0].pop()), "is damaged"),
    "two rows of the study": (table("study", lambda rows: rows.append(rows[0])), "is damaged"),
    "twice the same trial": (table("trial", lambda rows: rows.append(rows[0])), "is damaged"),
    "lines that are no JSON": (lambda members: members.update({"s1/event.jsonl": b"{[\n"}), "is damaged"),
    "a bottomless nesting": (lambda members: members.update({"s1/event.jsonl": b"[" * 99_999 + b"\n"}), "is damaged"),
    "no table of the study": (lambda members: members.update({"s1/study.jsonl": b""}), "is damaged"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_rows_that_do_not_fit_leave_nothing_though_their_hashes_agree(bundle: Path, tmp_path: Path, name: str) -> None:
    forge, match = FORGERIES[name]
    members = contents(bundle)
    forge(members)
    refused(sealed(tmp_path / "forged.pgdyno", members), tmp_path, match)


def edited(members: dict[str, bytes], change: Callable[[Any], object]) -> dict[str, bytes]:
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    return {**members, "manifest.json": json.dumps(manifest).encode()}


@pytest.mark.parametrize("study", ["../../etc", "/etc", "a/../b", "a\\b", "", "." * 3, "x" * 200, "a\0b"])
def test_a_study_whose_id_is_a_path_is_refused(bundle: Path, tmp_path: Path, study: str) -> None:
    members = contents(bundle)

    def change(manifest: Any) -> None:
        for entry in manifest["members"]:
            entry["study"] = study
        manifest["studies"][0]["id"] = study

    refused(sealed(tmp_path / "path.pgdyno", edited(members, change)), tmp_path, "is damaged")


def test_members_beside_the_manifest_are_refused(bundle: Path, tmp_path: Path) -> None:
    for name in ("../../evil", "/etc/passwd", "s1/more.jsonl"):
        path = sealed(tmp_path / "more.pgdyno", contents(bundle) | {name: b"x"})
        refused(path, tmp_path, "is damaged")
    lacking = contents(bundle)
    del lacking["s1/event.jsonl"]
    refused(sealed(tmp_path / "less.pgdyno", lacking), tmp_path, "is damaged")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda manifest: manifest.update(format=2), "has format 2"),
        (lambda manifest: manifest.update(format=0), "has format 0"),
        (lambda manifest: manifest["members"][0].update(table="quantum"), "is damaged"),
        (lambda manifest: manifest["members"][1]["columns"].__setitem__(3, "flavour"), "does not know"),
        (lambda manifest: manifest.pop("studies"), "is damaged"),
        (lambda manifest: manifest.update(studies=[]), "is damaged"),
        (lambda manifest: manifest.update(members=7), "is damaged"),
    ],
)
def test_another_version_and_a_broken_manifest_are_told(
    bundle: Path, tmp_path: Path, change: Callable[[Any], object], match: str
) -> None:
    members = edited(contents(bundle), change)
    text = members["manifest.json"]
    members["manifest.sha256"] = hashlib.sha256(text).hexdigest().encode()
    refused(sealed(tmp_path / "odd.pgdyno", members, seal=False), tmp_path, match)


def test_a_manifest_without_its_seal_is_refused(bundle: Path, tmp_path: Path) -> None:
    members = edited(contents(bundle), lambda manifest: manifest.update(pgdyno="9"))
    refused(sealed(tmp_path / "unsealed.pgdyno", members, seal=False), tmp_path, "is damaged")


def test_a_changed_number_is_refused_though_the_file_is_whole(bundle: Path, tmp_path: Path) -> None:
    members = contents(bundle)
    assert b"10.0" in members["s1/trial.jsonl"]
    members["s1/trial.jsonl"] = members["s1/trial.jsonl"].replace(b"10.0", b"90.0")
    path = sealed(tmp_path / "better.pgdyno", members, seal=False)
    refused(path, tmp_path, "is damaged", "is not what its hash says")


def test_bombs_are_refused_before_they_are_unpacked(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = sealed(tmp_path / "bomb.pgdyno", contents(bundle) | {"s1/event.jsonl": b" " * 40_000_000})
    refused(bomb, tmp_path, "is damaged", "would grow more than 400-fold")
    for name, bound, detail in (
        ("MOST_BYTES", 100, "it would unpack to"),
        ("MOST_MEMBERS", 3, "more than 3"),
        ("MOST_LINE_BYTES", 10, "is longer than 10 bytes"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(bundle_format, name, bound)
            refused(bundle, tmp_path, "is damaged", detail)


def test_what_is_no_bundle_is_told_with_a_way_on(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("a", "b")
    for name, match in (("text", "is not a bundle"), ("zip", "is not a bundle"), ("nothing", "does not exist")):
        with pytest.raises(UsageError, match=match), open_bundle(tmp_path / name):
            pass
