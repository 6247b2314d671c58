"""A load in a fork is a load: how it ends, what it took, what it reads, and that it ends with who began it."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from pgdyno.linux import processes
from pgdyno.owner.inherited import ProgramKind
from pgdyno.workloads.driver_process import DriverProcess
from server_image import eventually
from warm_load import ForkedLoad
from warm_program import RunningText

JOB = [sys.executable, "-m", "pgdyno.studies.batch.sql_program"]
BEGINS = f"""
import sys, time
from pathlib import Path
from pgdyno.workloads.driver_process import DriverProcess

here = Path(sys.argv[1])
load = DriverProcess.start(
    [*{JOB!r}, str(here / "job.sql")], environment={{"PGHOST": str(here)}}, directory=here, stdout=here / "out",
    stderr=here / "err",
)
print(load.pid, flush=True)
time.sleep(60)
"""


def begun(folder: Path, argv: list[str], **more: object) -> DriverProcess:
    return DriverProcess.start(
        argv, environment={"PGHOST": str(folder)}, directory=folder, stdout=folder / "out", stderr=folder / "err",
        kind=ProgramKind.OURSELVES, **more,
    )  # type: ignore[arg-type]  # fmt: skip


def test_its_end_its_cpu_and_its_words_are_told(tmp_path: Path) -> None:
    load = begun(tmp_path, [*JOB, "gone.sql"])
    assert isinstance(load, ForkedLoad)
    assert load.wait(60) == 1
    assert load.cpu_s is not None
    assert 0 < load.cpu_s < 60
    assert (tmp_path / "err").read_text() == '"gone.sql" cannot be read: No such file or directory\n'


def test_what_it_reads_by_a_descriptor_is_there(tmp_path: Path) -> None:
    tape, plan = (os.memfd_create(name) for name in ("tape", "plan"))
    os.write(plan, b"no plan")
    load = begun(tmp_path, [sys.executable, "-m", "pgdyno.replay.driver", str(tape), str(plan)], fds=(tape, plan))
    assert isinstance(load, ForkedLoad)
    assert load.wait(60) == 1
    assert "JSONDecodeError: Expecting value: line 1 column 1 (char 0)" in (tmp_path / "err").read_text()
    for one in (tape, plan):
        os.close(one)


def test_it_hears_signals_and_ends_with_who_began_it(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("SELECT 1")
    with socket.socket(socket.AF_UNIX) as silent:  # a server that takes a session and says nothing
        silent.bind(str(tmp_path / ".s.PGSQL.5432"))
        silent.listen()
        load = begun(tmp_path, [*JOB, str(tmp_path / "job.sql")])
        assert load.poll() is None
        assert os.getpgid(load.pid) == load.pid
        load.terminate()
        assert load.exit_code == -signal.SIGTERM
        with RunningText(BEGINS, str(tmp_path)) as tuner:
            pid = int(tuner.stdout.readline())
            assert processes.alive(pid)
            tuner.kill()
            eventually(lambda: not processes.alive(pid), "it ends with who began it")
    assert (tmp_path / "err").read_text() == "", "and does not say how long it has waited for the server"
