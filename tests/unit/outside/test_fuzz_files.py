"""Every reader with damaged examples of its files: an answer or one error, no defect, in bounded time and memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fix_judged_runs import JudgedRuns
from hostile_words import CASES, mutated
from pod_example import pod_text

ROOT = Path(__file__).parents[3]
DATA, EXAMPLES = ROOT / "tests" / "data", ROOT / "examples"
CODES = {0, 1, 2, 3, 6}
Reader = tuple[str, tuple[Path | Callable[[], str], ...], tuple[tuple[str, ...], ...]]

HAMMERDB = tuple(sorted(path for path in (DATA / "hammerdb").iterdir() if path.suffix in (".log", ".json", ".out")))
LOGS = tuple(sorted((DATA / "pg-logs").iterdir()))
PLANS = tuple(sorted((*(EXAMPLES / "plans").iterdir(), *(EXAMPLES / "ybio").glob("*.toml"))))
CHAIN = EXAMPLES / "batch" / "month-end.toml"
CONF = "shared_buffers = 128MB\nwork_mem = '8MB'  # a remark\nsearch_path = '\"$user\", public'\nvm.swappiness = 1\n"
SETTINGS = (
    "name,setting,unit,vartype,enumvals\nwork_mem,4096,kB,integer,\nfsync,on,,bool,{}\nwal_level,replica,,enum,\n"
)
ROWS = "Test,PODs,C/J,TPS,LAT,CPU %,Row Exclusive\nbaseline,1,10,100.5,1.5,50,3 (max 5)\nother,1,10,120,1.4,55,2\n"
ROWS_JSON = '{"tables": {"a": {"cores": 4, "rows": [{"clients": 1, "tps": 5.5, "smt": "2"}]}}}'
LIST = '[{"name": "work_mem", "setting": "4096", "unit": "kB", "vartype": "integer", "enumvals": ["a"]}]'
CSVLOG = (
    '2024-01-01 10:00:00.123 UTC,"u","d",1,"h",x.1,1,"SELECT",2024-01-01 10:00:00 UTC,1/1,0,LOG,00000,'
    '"checkpoint complete: wrote 5 buffers (0.1%)",,,,,,,,,"psql","client backend",,0\n'
)
JSONLOG = '{"timestamp":"2024-01-01 10:00:00.1 UTC","error_severity":"LOG","message":"checkpoint starting: time"}\n'

READERS: tuple[Reader, ...] = (
    (
        "plan.toml",
        PLANS,
        (
            ("experiment", "--plan", "{}", "--dry-run"),
            ("bench", "--plan", "{}", "--dry-run"),
            ("tune", "--plan", "{}", "--dry-run"),
        ),
    ),
    ("matrix.toml", tuple(sorted((EXAMPLES / "matrices").iterdir())), (("matrix", "{}", "--dry-run"),)),
    (
        "project.toml",
        (DATA / "projects" / "customer_benchmark.toml",),
        (("project", "check", "{}"), ("project", "report", "{}"), ("project", "fix", "{}")),
    ),
    ("chain.toml", (CHAIN,), (("batch", "import", "{}", str(CHAIN.with_suffix(".csv"))),)),
    ("jobs.csv", (CHAIN.with_suffix(".csv"),), (("batch", "import", str(CHAIN), "{}"),)),
    ("rules/house.toml", (EXAMPLES / "rules" / "house.toml",), (("rules", "--rules", "rules"),)),
    ("topology.toml", (EXAMPLES / "storage" / "ds8000.toml",), (("disks", "{}", "--data", "4"), ("disks", "{}"))),
    ("hammerdb.log", HAMMERDB, (("import", "hammerdb", "{}"),)),
    (
        "sadf.json",
        (DATA / "iostat" / "sadf_A.json",),
        (("import", "sadf", "{}"), ("advise", "--root", "capture", "--sadf", "{}")),
    ),
    (
        "iostat.txt",
        tuple(sorted((DATA / "iostat").glob("iostat*"))),
        (
            ("import", "iostat", "{}"),
            ("compare", "--iostat", "{}", "{}"),
            ("advise", "--root", "capture", "--iostat", "{}"),
        ),
    ),
    (
        "rows.csv",
        (lambda: ROWS, lambda: ROWS_JSON),
        (("import", "rows", "{}", "-s", "1"), ("import", "rows", "{}", "-s", "1", "--table", "a")),
    ),
    ("pod.log", (lambda: pod_text(0),), (("import", "pods", "{}"),)),
    (
        "pg.conf",
        (lambda: CONF,),
        (
            ("advise", "--pg-conf", "{}", "--pg-version", "16"),
            ("persist", "{}"),
            ("inspect", "--root", "capture", "--pg-conf", "{}", "--pg-version", "14"),
        ),
    ),
    (
        "settings.csv",
        (lambda: SETTINGS, lambda: LIST),
        (("inspect", "--root", "capture", "--pg-settings", "{}"), ("advise", "--pg-settings", "{}")),
    ),
    ("server.log", (*LOGS, lambda: CSVLOG * 3, lambda: JSONLOG * 3), (("advise", "--root", "capture", "--log", "{}"),)),
    ("bundle.pgdyno", (lambda: "PK\x03\x04 no bundle",), (("bundle", "show", "{}"), ("bundle", "import", "{}"))),
)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder of its own with a capture in it, where no server is."""
    for name, value in {"PGDYNO_HOME": str(tmp_path / "home"), "PGHOST": "/nonexistent", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("subprocess.Popen", None)
    work = tmp_path / "work"
    (work / "rules").mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


@pytest.mark.timeout(3600)
def test_no_file_makes_a_defect(nowhere: Path, judged_runs: JudgedRuns) -> None:
    draw = judged_runs.draw
    shutil.copytree(DATA / "captures" / "s390x-lpar-128g", nowhere / "capture")
    for number in range(CASES):
        name, examples, calls = READERS[number % len(READERS)]
        example = draw.choice(examples)
        text = example.read_bytes() if isinstance(example, Path) else example().encode()
        Path(name).write_bytes(mutated(text, draw))
        judged_runs.run([word.format(name) for word in draw.choice(calls)], CODES, [Path(name)])
        for made in nowhere.glob("*.fixed*"):
            made.unlink()
    judged_runs.conclude()


@pytest.mark.timeout(3600)
def test_no_capture_makes_a_defect(nowhere: Path, judged_runs: JudgedRuns) -> None:
    draw = judged_runs.draw
    every = sorted(path for path in (DATA / "captures").iterdir() if path.is_dir() and path.name != "loose")
    every += sorted(path for path in (DATA / "captures" / "loose").iterdir() if path.is_dir())
    for _ in range(max(1, CASES // 4)):
        folder = draw.choice(every)
        shutil.copytree(folder, nowhere / "capture")
        files = sorted(path for path in Path("capture").rglob("*") if path.is_file())
        changed = draw.sample(files, min(len(files), draw.randrange(1, 5)))
        for path in changed:
            path.chmod(0o600)
            path.write_bytes(mutated(path.read_bytes(), draw))
        verb = draw.choice((("inspect", "--root"), ("advise", "--root"), ("advise", "--all", "--json", "--root")))
        judged_runs.run([*verb, "capture"], CODES, changed)
        shutil.rmtree("capture")
    judged_runs.conclude()
