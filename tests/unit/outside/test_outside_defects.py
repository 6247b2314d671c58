"""Files that made pgdyno fail with a defect of its own, wait for ever or obey: each ends in one error, or in its words.

The files are the worst of their kind; what is asserted holds for any of them.
"""

from __future__ import annotations

import json
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdyno.cli import main

Said = tuple[int, str, str]
Call = Callable[..., Said]
LONG = "9" * 4301
DEEP = "[" * 100_000
ESCAPES = ["\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\u202e", "\u2066", "\u2069"]
IOSTAT = "Device  r/s  w/s  rkB/s  wkB/s  r_await  %util\nsda  {0}  {0}  {0}  {0}  1.0  1.0\n"


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a call of a command: its exit code, stdout and stderr; its files are in the current folder."""
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def call(*words: str) -> Said:
        monkeypatch.setattr("sys.argv", ["pgdyno", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture
def small_memory() -> Iterator[None]:
    """Let this process have a gigabyte more than it has: what reads without a bound fails soon."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


DEFECTS: list[tuple[str, str, tuple[str, ...]]] = [
    ("toml", f"version = {LONG}\n", ("project", "fix", "toml")),
    ("toml", f"version = {LONG}\n", ("experiment", "--plan", "toml")),
    ("toml", f"version = {LONG}\n", ("bench", "--plan", "toml")),
    ("toml", f"version = {LONG}\n", ("matrix", "toml")),
    ("toml", f"x = {LONG}\n", ("disks", "toml")),
    ("toml", f"x = {DEEP}\n", ("project", "check", "toml")),
    ("toml", f"x = {DEEP}\n", ("experiment", "--plan", "toml")),
    ("toml", f"x = {DEEP}\n", ("matrix", "toml")),
    ("toml", f"version = 0x{'f' * 9000}\n", ("project", "check", "toml")),
    ("rules/a.toml", f"[[rule]]\nid = {LONG}\n", ("rules", "--rules", "rules")),
    ("rules/a.toml", f"x = {DEEP}\n", ("rules", "--rules", "rules")),
    ("json", f'{{"rows": [{{"clients": {LONG}, "tps": 1}}]}}', ("import", "rows", "json", "-s", "1")),
    ("json", f'{{"rows": {DEEP}', ("import", "rows", "json", "-s", "1")),
    ("json", '[{"clients": 1, "tps": 5, "configuration": "\\ud800"}]', ("import", "rows", "json", "-s", "1")),
    ("csv", f"clients,tps\n1,{'x' * 200_000}\n", ("import", "rows", "csv", "-s", "1")),
    ("log", f"System achieved {LONG} NOPM from 5 PostgreSQL TPM\n", ("import", "hammerdb", "log")),
    ("log", f'{{"job": {{"jobid": "A"}}, "result": {{"nopm": {LONG}, "tpm": 1}}}}', ("import", "hammerdb", "log")),
    ("log", f"[{DEEP}", ("import", "hammerdb", "log")),
    ("json", f'{{"sysstat": {{"hosts": [{{"statistics": [{LONG}]}}]}}}}', ("import", "sadf", "json")),
    ("json", f'{{"settings": {LONG}}}', ("inspect", "--root", ".", "--pg-settings", "json")),
]


@pytest.mark.parametrize(
    ("name", "text", "words"), DEFECTS, ids=[f"{number} {words[0]}" for number, (_, _, words) in enumerate(DEFECTS)]
)
def test_a_hostile_document_is_an_error_of_its_user(said: Call, name: str, text: str, words: tuple[str, ...]) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
    code, _, err = said(*words)
    assert "defect" not in err
    assert (code, "hint: " in err) == (2, True), err
    assert name in err or "settings" in err


def test_an_integer_that_python_does_not_read_is_named_with_its_place(said: Call) -> None:
    Path("plan.toml").write_text(f"version = 1\n\nx = {LONG}\n")
    _, _, err = said("experiment", "--plan", "plan.toml")
    assert "plan.toml" in err
    assert "line 3" in err
    assert "4,301 digits" in err


@pytest.mark.parametrize("value", ["-1e400", "1e400", "1e308TB", pytest.param("9" * 4301, id="long"), "-" + "9" * 400])
@pytest.mark.parametrize("name", ["work_mem", "shared_buffers", "random_page_cost", "max_connections"])
def test_a_number_without_measure_in_a_configuration_is_told(said: Call, name: str, value: str) -> None:
    Path("pg.conf").write_text(f"{name} = {value}\n")
    for words in (("advise", "--pg-conf"), ("inspect", "--root", ".", "--pg-conf")):
        code, _, err = said(*words, "pg.conf", "--pg-version", "16")
        assert "defect" not in err
        assert code in (0, 1, 2), err


@pytest.mark.parametrize("figure", ["1e308", "9" * 400, "1e400", "nan", "inf"])
@pytest.mark.parametrize("flags", [(), ("--json",), ("--markdown",)])
def test_a_huge_figure_of_iostat_is_no_defect(said: Call, figure: str, flags: tuple[str, ...]) -> None:
    for name in ("before", "after"):
        Path(name).write_text(IOSTAT.format(figure))
    code, out, err = said("compare", "--iostat", "before", "after", *flags)
    assert "defect" not in err
    assert code in (0, 2), err
    if code == 0 and "--json" in flags:
        json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_word_of_a_file_reaches_the_terminal_as_an_order(said: Call, escape: str) -> None:
    Path("pg.conf").write_text(f"search_path = 'a{escape}b'\nshared_buffers = '12{escape}MB'\n")
    Path("plan.toml").write_text(f"x = '{escape}' y\n")
    calls = [
        ("inspect", "--root", ".", "--pg-conf", "pg.conf", "--pg-version", "16"),
        ("advise", "--pg-conf", "pg.conf", "--pg-version", "16", "--all"),
        ("persist", "pg.conf"),
        ("experiment", "--plan", "plan.toml"),
        ("disks", f"missing{escape}"),
        ("store", "show", f"a{escape}b"),
    ]
    for words in calls:
        _, out, err = said(*words)
        assert not [one for one in (escape[0], "\x1b", "\x07") if one in out + err], words


READERS = [
    ("persist", "{}"),
    ("disks", "{}"),
    ("bundle", "show", "{}"),
    ("bundle", "import", "{}"),
    ("preflight", "{}"),
    ("matrix", "{}"),
    ("project", "check", "{}"),
    ("project", "fix", "{}"),
    ("experiment", "--plan", "{}"),
    ("bench", "--conf", "{}", "--yes"),
    ("bench", "-w", "custom", "-f", "{}", "--yes"),
    ("import", "hammerdb", "{}"),
    ("import", "sadf", "{}"),
    ("import", "iostat", "{}"),
    ("import", "rows", "{}", "-s", "1"),
    ("import", "pods", "{}"),
    ("compare", "--iostat", "{}", "{}"),
    ("advise", "--pg-conf", "{}", "--pg-version", "16"),
    ("advise", "--pg-settings", "{}"),
    ("advise", "--root", ".", "--sadf", "{}"),
    ("advise", "--root", ".", "--iostat", "{}"),
    ("advise", "--root", ".", "--log", "{}"),
    ("inspect", "--root", ".", "--pg-settings", "{}"),
]


@pytest.mark.timeout(30)
@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("words", READERS)
@pytest.mark.parametrize("kind", ["/dev/zero", "fifo", "sparse"])
def test_what_has_no_end_is_no_file(said: Call, words: tuple[str, ...], kind: str, monkeypatch) -> None:
    monkeypatch.setenv("PGHOST", "/nonexistent")
    monkeypatch.setenv("PGPORT", "1")
    name = kind
    if kind == "fifo":
        os.mkfifo("fifo")
    elif kind == "sparse":
        with Path("sparse").open("wb") as file:
            file.truncate(1 << 40)
    code, _, err = said(*(word.format(name) for word in words))
    assert "defect" not in err
    assert code in (1, 2, 6), err
    assert threading.active_count() == 1
