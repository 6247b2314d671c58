"""What the advisor has to give for the machines of the sources: whole captures, from folder to exported file."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from captured import CAPTURES
from pgdyno.cli.main import command
from pgdyno.errors import EnvironmentUnsuitable, ExitCode, PgdynoError
from pgdyno.export import FORMATS
from pgdyno.linux.host_texts import HostTexts
from pgdyno.probes.evidence.observation import Observation, save

COST = "kernel.sched_migration_cost_ns"


def pgdyno(*words: str | Path) -> tuple[int, str]:
    """Run a verb in this process and return its exit code and standard output."""
    done = CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return int(done.return_value), done.stdout


def advice(folder: Path, *flags: str) -> dict[str, Mapping[str, object]]:
    """Return the findings on a captured folder by rule."""
    code, text = pgdyno("advise", "--root", folder, "--json", *flags)
    assert code in (0, 1)
    return {finding["rule"]: finding for finding in json.loads(text)["findings"]}


def changes(findings: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    return {change["knob"]: change["value"] for finding in findings.values() for change in finding["changes"]}


@pytest.mark.requirement("R-PG-12", "R-KRN-01", "R-KRN-11", "CON-16", "CON-17", "R-ARC-01", "R-ARC-03")
@pytest.mark.parametrize(("name", "least", "most"), [("s390x-lpar-128g", 33516, 38912), ("x86_64-128g", 16758, 19456)])
def test_a_machine_of_128_gb_gets_the_sizes_of_the_guide_in_its_own_pages(name: str, least: int, most: int) -> None:
    found = changes(advice(CAPTURES / name))
    assert (found["shared_buffers"], found["effective_cache_size"]) == ("32GB", "96GB")
    assert (found["vm.dirty_background_bytes"], found["vm.dirty_bytes"]) == (str(64 << 20), str(512 << 20))
    assert least < int(found["vm.nr_hugepages"]) < most


@pytest.mark.requirement("R-ARC-02", "R-IPC-08", "R-KRN-17")
def test_power_reports_thp_smt_and_shmall_in_pages_of_64_kb() -> None:
    found = advice(CAPTURES / "ppc64le-64k", "--depth", "deep")
    assert changes(found)["transparent_hugepage.enabled"] == "never"
    assert "SMT: 8 of 8 threads per core" in str(found["smt-level"])
    assert "kernel.shmall = 1048576 counts pages of 64 KiB: 64 GiB." in str(found)


def host_texts(second: int) -> HostTexts:
    """Return a host with four CPUs that is half idle, with quick disks and a quiet network."""
    cpu = f"cpu  {180 * second} 0 {20 * second} {200 * second} 0 0 0 0 0 0\n"
    stat = f"{cpu}ctxt {5000 * second}\nprocesses 1\nprocs_running 60\nprocs_blocked 0\n"
    disk = f"94 0 dasda 0 0 0 0 {100 * second} 0 {1600 * second} {50 * second} 0 {100 * second} {50 * second}\n"
    head = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n"
    net = f"{head}  enc1000: {10**6 * second} 1 0 0 0 0 0 0 {10**6 * second} 1 0 0 0 0 0 0\n"
    files = {"stat": stat, "diskstats": disk, "meminfo": "MemTotal: 100 kB\n", "vmstat": "oom_kill 0\n", "net/dev": net}
    pressure = dict.fromkeys(("pressure/cpu", "pressure/memory", "pressure/io"), "absent")
    return HostTexts(files, pressure, frozenset({"dasda"}), 100, 4096)


@pytest.fixture
def loaded(tmp_path: Path) -> Path:
    """The LPAR of four IFLs with kernel 4.18, while sixty sessions work on it and half of its time is idle."""
    folder = tmp_path / "capture"
    shutil.copytree(CAPTURES / "s390x-lpar-4ifl", folder)
    shutil.copytree(CAPTURES / "s390x-lpar-128g" / "sys" / "class" / "net", folder / "sys" / "class" / "net")
    working = [{"state": "active", "wait_event_type": None, "wait_event": None, "sessions": 60}]
    host = [(1000.0 + second, host_texts(second + 1)) for second in range(10)]
    save(Observation(activity=[working] * 10, host=host, kernel_log=""), folder / "evidence")
    return folder


@pytest.mark.requirement("R-SCH-01", "R-SCH-02", "R-SCH-07", "CON-14", "CON-15")
def test_a_loaded_4_18_machine_gets_50000_to_test(loaded: Path) -> None:
    finding = advice(loaded, "--depth", "deep")["migration-cost"]
    assert finding["answer"] == "finding", finding
    assert [(change["knob"], change["value"]) for change in finding["changes"]] == [(COST, "50000")]
    assert finding["state"] == "needs-test"
    _, text = pgdyno("advise", "--root", loaded, "--depth", "deep", "--emit", "sysctl")
    assert f"{COST} = 50000" in text


def with_debugfs_cost(folder: Path, cost: int) -> None:
    place = folder / "sys" / "kernel" / "debug" / "sched"
    place.mkdir(parents=True, exist_ok=True)
    (place / "migration_cost_ns").write_text(f"{cost}\n")


@pytest.mark.requirement("R-SCH-08", "CON-15")
@pytest.mark.parametrize("cost", [500_000, 5_000_000])
@pytest.mark.parametrize("release", ["5.13.0", "6.18.44"])
def test_no_format_ever_sets_the_sysctl_on_a_kernel_without_it(loaded: Path, release: str, cost: int) -> None:
    uname = loaded / "commands" / "uname.txt"
    uname.write_text(uname.read_text().replace("4.18.0-80.el8.s390x", release))
    sysctl = loaded / "commands" / "sysctl.txt"
    sysctl.write_text("".join(line for line in sysctl.read_text().splitlines(True) if COST not in line))
    with_debugfs_cost(loaded, cost)
    found = advice(loaded, "--depth", "deep")
    rule = "migration-cost" if cost == 500_000 else "foreign-scheduler-tips"
    assert found[rule]["changes"], found[rule]
    for form in FORMATS:
        code, text = pgdyno("advise", "--root", loaded, "--depth", "deep", "--emit", form)
        assert code in (0, 1)
        assert COST not in text, form


@pytest.mark.requirement("R-SCH-10", "CON-13")
def test_a_list_for_x86_on_z_is_warned_about_with_its_loss(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    shutil.copytree(CAPTURES / "s390x-lpar-4ifl", folder)
    sysctl = folder / "commands" / "sysctl.txt"
    sysctl.write_text(sysctl.read_text().replace(f"{COST} = 500000", f"{COST} = 5000000"))
    finding = advice(folder)["foreign-scheduler-tips"]
    assert (finding["answer"], finding["severity"]) == ("finding", "warning")
    assert "-2 % throughput on IBM Z" in str(finding["effects"])
    assert changes({"one": finding})[COST] == "500000"
    assert changes({"one": finding})["kernel.sched_autogroup_enabled"] == "1"


def damaged(folder: Path, how: str) -> None:
    """Damage every file of a capture, and put evidence beside it that is damaged in the same way."""
    (folder / "evidence").mkdir()
    for name in ("snapshot_1", "snapshot_2", "activity", "host_0001"):
        (folder / "evidence" / f"{name}.json").write_text("{}")
    (folder / "sadf.json").write_text("{}")
    files = [path for path in folder.rglob("*") if path.is_file()]
    for number, path in enumerate(files):
        match how:
            case "empty":
                path.write_bytes(b"")
            case "bytes":
                path.write_bytes(random.Random(number).randbytes(2000))
            case "nested":
                path.write_text("[" * 100_000)
            case "other types":
                path.write_text('[1, "a", null, {"a": []}, [[]]]')
            case "cut":
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            case "folders":
                path.unlink()
                path.mkdir()
            case "loops":
                path.unlink()
                path.symlink_to(path.name)
            case "pipes":
                path.unlink()
                os.mkfifo(path)
            case "huge":
                os.truncate(path, 1 << 40)


CONTROLS = {chr(code) for code in range(1, 32)} - set("\t\n\r")
WAYS = ("empty", "bytes", "nested", "other types", "cut", "folders", "loops", "pipes", "huge")


@pytest.mark.requirement("R-VER-06", "R-ARC-04")
@pytest.mark.parametrize("how", WAYS)
def test_a_damaged_capture_is_unknown_and_nothing_is_made_up(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "capture"
    shutil.copytree(CAPTURES / "x86_64-128g", folder)
    damaged(folder, how)
    for verb, *flags in (("inspect",), ("advise",), ("advise", "--json")):
        code, text = pgdyno_if_readable(verb, "--root", folder, *flags)
        if code == ExitCode.UNSUITABLE:
            continue
        assert code in (0, 1)
        assert "unknown" in text
        assert not set(text) & CONTROLS
        if flags and how != "cut":
            found = json.loads(text)["findings"]
            assert [finding["rule"] for finding in found if finding["changes"]] == []


def pgdyno_if_readable(*words: str | Path) -> tuple[int, str]:
    """Run a verb; the folder may hold so little that it is refused as a whole."""
    try:
        return pgdyno(*words)
    except EnvironmentUnsuitable as error:
        return int(error.exit_code), error.message


@pytest.mark.parametrize("verb", ["inspect", "advise"])
def test_what_is_no_capture_is_an_error_with_its_exit_code(tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    for name in ("file", "empty", "absent"):
        with pytest.raises((PgdynoError, click.ClickException)) as caught:
            pgdyno(verb, "--root", tmp_path / name)
        assert getattr(caught.value, "exit_code", None) in (ExitCode.USAGE, ExitCode.UNSUITABLE)


@pytest.mark.requirement("R-ADV-15")
@pytest.mark.parametrize("verb", ["inspect", "advise"])
def test_looking_at_a_server_loads_neither_laboratory_nor_store(tmp_path: Path, verb: str) -> None:
    asks = f"command.main(['{verb}', '--target', 'host={tmp_path} user=nobody'], standalone_mode=False)"
    code = f"""
import sys
from pgdyno.cli.main import command
from pgdyno.errors import PgdynoError
try:
    {asks}
except PgdynoError as error:
    print(error.message)
print(sorted({{"numpy", "scipy", "sqlalchemy"}} & set(sys.modules)))
"""
    environment = {**os.environ, "PGDYNO_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert "connect" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_words_in_brackets_are_no_markup() -> None:
    _, text = pgdyno("advise", "--root", CAPTURES / "ppc64le-64k", "--explain", "thp")
    assert "shows [never]" in " ".join(text.split())
