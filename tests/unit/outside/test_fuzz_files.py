"""Every reader with damaged examples of its files: an answer or one error, no defect, in bounded time and memory."""

from __future__ import annotations

import random
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostile_words import CASES, mutated, note, seed_of
from pgdyno.cli import main
from pod_example import pod_text

ROOT = Path(__file__).parents[3]
DATA, EXAMPLES = ROOT / "tests" / "data", ROOT / "examples"
MOST_S = 20.0
Reader = tuple[str, tuple[Path | Callable[[], str], ...], tuple[tuple[str, ...], ...]]

HAMMERDB = tuple(sorted(path for path in (DATA / "hammerdb").iterdir() if path.suffix in (".log", ".json", ".out")))
LOGS = tuple(sorted((DATA / "pg-logs").iterdir()))
PLANS = tuple(sorted((*(EXAMPLES / "plans").iterdir(), *(EXAMPLES / "ybio").glob("*.toml"))))
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
def test_no_file_makes_a_defect(
    nowhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    draw = random.Random(seed_of(request.config))
    shutil.copytree(DATA / "captures" / "s390x-lpar-128g", nowhere / "capture")
    found: list[str] = []
    for number in range(CASES):
        name, examples, calls = READERS[number % len(READERS)]
        example = draw.choice(examples)
        text = example.read_bytes() if isinstance(example, Path) else example().encode()
        Path(name).write_bytes(mutated(text, draw))
        found += judged([word.format(name) for word in draw.choice(calls)], monkeypatch, capsys, Path(name))
        for made in nowhere.glob("*.fixed*"):
            made.unlink()
    _conclude(found)


@pytest.mark.timeout(3600)
def test_no_capture_makes_a_defect(
    nowhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    draw = random.Random(seed_of(request.config))
    every = sorted(path for path in (DATA / "captures").iterdir() if path.is_dir() and path.name != "loose")
    every += sorted(path for path in (DATA / "captures" / "loose").iterdir() if path.is_dir())
    found: list[str] = []
    for _ in range(max(1, CASES // 4)):
        folder = draw.choice(every)
        shutil.copytree(folder, nowhere / "capture")
        files = sorted(path for path in Path("capture").rglob("*") if path.is_file())
        changed = draw.sample(files, min(len(files), draw.randrange(1, 5)))
        for path in changed:
            path.chmod(0o600)
            path.write_bytes(mutated(path.read_bytes(), draw))
        verb = draw.choice((("inspect", "--root"), ("advise", "--root"), ("advise", "--all", "--json", "--root")))
        found += judged([*verb, "capture"], monkeypatch, capsys, *changed)
        shutil.rmtree("capture")
    _conclude(found)


def judged(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *files: Path
) -> list[str]:
    """Run a verb and return what is wrong with how it ended; the files are kept where findings are."""
    monkeypatch.setattr("sys.argv", ["pgdyno", *argv])
    began = time.process_time()
    try:
        main.main()
        code: object = "none"
    except SystemExit as ended:
        code = ended.code
    except BaseException as error:
        code = repr(error)
    spent, said = time.process_time() - began, capsys.readouterr()
    wrong = ""
    if code not in {0, 1, 2, 3, 6} or "defect of" in said.err or "Traceback" in said.out + said.err:
        wrong = f"{code}: {said.err[:400]}"
    elif spent > MOST_S:
        wrong = f"{spent:.1f} s"
    elif {"\x1b", "\u202e"} & set(said.out + said.err):
        wrong = "an escape"
    return [note(f"{argv}: {wrong}: {[path.read_bytes()[:3000] for path in files]}")] if wrong else []


def _conclude(found: list[str]) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    assert not found, f"{len(found)} found:\n" + "\n".join(text[:900] for text in found[:20])
    assert peak < 3000, f"{peak} MB"
