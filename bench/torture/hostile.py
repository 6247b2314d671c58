"""A hostile owner makes random moves while root looks at his server, measures and tunes it; then all is audited.

Nothing outside of the owner's reach may change, nothing of his may run with root's rights, nothing of root's may become
readable to him, root may neither hang nor see a defect, and when he stops the server comes back.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import hostile_moves
import root_audit
from bounded import head
from ground import Original, take_own_words_away
from lair import CANARY, Lair, lair, picture
from launch import SECRETS
from state import State, postmaster_of, state_of

from pgdyno.server.postgres import Postgres

BOUND_S = 240.0
"""The longest that anything of root's may take: two waits for a worker that was stopped, and what lies between."""
ANSWERS_WITHIN_S = 90.0
VERBS: tuple[tuple[str, ...], ...] = (
    ("inspect",),
    ("advise",),
    ("guards",),
    ("privileges", "--for", "tune"),
    ("preflight", "{conf}"),
    ("bench", "--workload", "tpcb-like", "-D", "scale=1", "-c", "1", "--measure", "2", "--warmup", "1"),
    ("rollback", "--list"),
)
PGDYNO = [sys.executable, "-m", "pgdyno"]


@dataclass
class Findings:
    """What was found wrong, and what was done."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def check(self, found: object, what: str) -> None:
        """Note something that must not be."""
        if found:
            self.wrong.append(f"{what}: {found}")


def torment(folder: Path, *, moves: int, seed: int, pause_s: float = 0.1) -> int:
    """Let the owner make so many moves while root works; print what came of it, return 1 when anything was wrong."""
    with lair(folder) as made:
        findings = _torment(made, moves, seed, pause_s)
    print("\n".join(f"  {count:6} {what}" for what, count in sorted(findings.counts.items())))
    print("\n".join(f"WRONG {one}" for one in findings.wrong) or "nothing was wrong")
    return 1 if findings.wrong else 0


def _torment(made: Lair, moves: int, seed: int, pause_s: float) -> Findings:
    findings, canaries = Findings(), picture(made.ground.canary)
    before = _server(made)
    counts, stop = made.folder.parent / "moves.json", made.folder.parent / "stop"
    counts.write_text("")
    stop.unlink(missing_ok=True)
    restarted = made.folder.parent / hostile_moves.RESTARTED
    restarted.unlink(missing_ok=True)
    os.chown(counts, made.account.uid, made.account.gid)

    def owner() -> None:
        original = Original.of(made.ground)
        done = hostile_moves.run(made.ground, moves, seed, made.start, pause_s, restarted.exists)
        original.put_back(made.ground)
        counts.write_text(json.dumps(done))

    mover = made.as_owner(owner)
    descriptor = os.pidfd_open(mover)  # its number may be another's when it has ended
    try:
        _work(made, mover, stop, findings)
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)
    findings.counts.update({f"moves: {name}": count for name, count in json.loads(counts.read_text() or "{}").items()})
    _bring_back(made, before, findings)
    _last_session(made, before, findings)
    _audit(made, canaries, findings)
    return findings


def _work(made: Lair, mover: int, stop: Path, findings: Findings) -> None:
    """Run root's side until the owner has made his moves: sessions in one process, verbs in others."""
    verb = tuner = None
    number, verb_since = 0, 0.0
    while (ended := os.waitpid(mover, os.WNOHANG)) == (0, 0):
        if tuner is None:
            tuner = _tuner(made, stop)
        elif tuner.poll() is not None:
            _read_tuner(tuner, made, findings)
            tuner = None
        if verb is None:
            verb, verb_since = _verb(made, VERBS[number % len(VERBS)]), time.monotonic()
            number += 1
        elif verb.poll() is not None:
            _read_verb(verb, made, findings)
            verb = None
        elif time.monotonic() - verb_since > BOUND_S:
            findings.check(_words(verb), f"hung longer than {BOUND_S:g} s")
            verb.kill()
        findings.check(_run_by_root(made), "root runs a program of the owner's")
        time.sleep(0.05)
    findings.check(ended[1], "the suite itself: the owner's process ended with status")
    stop.touch()
    for process, read in ((verb, _read_verb), (tuner, _read_tuner)):
        if process is not None:
            try:
                process.wait(2 * BOUND_S)  # of a session more than one step may be left, each of them bounded
            except subprocess.TimeoutExpired:
                findings.check(_where(process), f"hung longer than {2 * BOUND_S:g} s after the moves had ended")
                process.kill()
            read(process, made, findings)


def _where(process: subprocess.Popen[str]) -> str:
    """Return what a process of root's was, and where it waits if it is the tuner, which tells on SIGUSR1."""
    if process.stderr is None:
        return _words(process)
    process.send_signal(signal.SIGUSR1)
    time.sleep(1)
    process.kill()
    return process.communicate()[1][-4000:]


def _environment(made: Lair) -> dict[str, str]:
    return {**os.environ, **SECRETS, "PGDYNO_HOME": str(made.state)}


def _tuner(made: Lair, stop: Path) -> subprocess.Popen[str]:
    program = Path(__file__).with_name("hostile_tuner.py")
    words = [made.conninfo, str(made.state / "state" / "undo"), str(stop)]
    environment = {**_environment(made), root_audit.FOLDER: str(made.folder)}
    return subprocess.Popen(
        [sys.executable, str(program), *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


def _verb(made: Lair, words: tuple[str, ...]) -> subprocess.Popen[str]:
    conf = made.state / "wanted.conf"
    conf.write_text("shared_buffers = 32MB\nwork_mem = 8MB\n")
    words = tuple(word.format(conf=conf) for word in words)
    more = () if words[0] == "rollback" else ("--target", made.conninfo)
    with _said(made).open("w") as said:
        return subprocess.Popen(
            [*PGDYNO, *words, *more], env=_environment(made), stdin=subprocess.DEVNULL, stdout=said,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip


def _said(made: Lair) -> Path:
    return made.folder.parent / "verb.out"


def _read_tuner(tuner: subprocess.Popen[str], _made: Lair, findings: Findings) -> None:
    out, err = tuner.communicate()
    findings.counts["sessions: processes of root's"] += 1
    if tuner.returncode in (-signal.SIGTERM, -signal.SIGKILL) and "Traceback" not in err:
        findings.counts["sessions: ended by their watchdog"] += 1
        return
    if "Traceback" in err or not out.strip():
        findings.check(err.strip()[-1500:] or f"exit {tuner.returncode} without a word", "root's tuner broke down")
        return
    told = json.loads(out.splitlines()[-1])
    findings.counts.update({f"done: {name}": count for name, count in told["done"].items()})
    findings.counts.update({f"told: {name}": count for name, count in told["told"].items()})
    for what, count in told["defects"].items():
        findings.check(f"{what} ({count} times)", "defect in a session")
    findings.check(sorted(told["touched"])[:10], "root touched files of the owner's itself")
    seconds, step = told["longest"]
    findings.check(seconds > BOUND_S and f"{step} took {seconds:.0f} s", f"hung longer than {BOUND_S:g} s")


def _read_verb(verb: subprocess.Popen[str], made: Lair, findings: Findings) -> None:
    text = _said(made).read_text(errors="replace")
    words = _words(verb)
    findings.counts[f"verb: {words.split()[0]} ended with {verb.returncode}"] += 1
    if "Traceback" in text or "defect of pgdyno" in text:
        findings.check(f"{words}: {text.strip()[-1500:]}", "defect in a verb")
    findings.check("\x1b]0;" in text and words, "an escape sequence of the owner's reached the terminal")


def _words(process: subprocess.Popen[str]) -> str:
    return " ".join(map(str, process.args[len(PGDYNO) :])) if isinstance(process.args, list) else "?"


def _run_by_root(made: Lair) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == 0:
                exe = str((entry / "exe").readlink())
                if exe.startswith(str(made.folder)) and "\nUid:\t0\t" in (entry / "status").read_text():
                    found.append(f"{exe} as process {entry.name}")
    return found


def _server(made: Lair) -> State:
    """Return configuration and settings, as one who asks finds them."""
    main = state_of(made.ground.data, made.ground.data, kernel=False).values
    # What a server writes whose log the owner has taken away goes to a file of ours, which `pgdyno cleanup` lists.
    keep = {name: text for name, text in main.items() if not name.startswith(("process", "file pgdyno-server.log"))}
    for path in sorted(made.ground.etc.iterdir()):
        keep[f"file {path}"] = repr((head(path), path.stat().st_mode, path.stat().st_uid))
    return State(keep)


def _roll_back(made: Lair, findings: Findings) -> None:
    """Do what a person does afterwards, and see that it ends well."""
    done = subprocess.run(
        [*PGDYNO, "rollback"], env=_environment(made), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=BOUND_S, check=False,
    )  # fmt: skip
    findings.counts[f"rollback afterwards ended with {done.returncode}"] += 1
    text = done.stdout + done.stderr
    findings.check("Traceback" in text and text[-1500:], "defect in the rollback")
    failed = done.returncode != 0
    findings.check(failed and f"{text[-1500:]}\n{_listing(made)}", "the rollback did not bring the server back")


def _listing(made: Lair) -> str:
    """Return what lies in the server's folders, and what the watchdogs wrote last."""
    ground = made.ground
    words = ["ls", "-lai", "--time-style=full-iso", str(ground.home), str(ground.etc), str(ground.data)]
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    logs = sorted(made.state.glob("state/undo/*/watchdog.log"), key=lambda path: path.stat().st_mtime)
    return listed + "".join(head(path).decode(errors="replace")[-2000:] for path in logs[-2:])


def _bring_back(made: Lair, before: State, findings: Findings) -> None:
    """The owner has put his folder right: now root's rollback has to do the rest."""
    made.wait(made.restart)
    _await_no_watchdog(made)
    _roll_back(made, findings)
    made.wait(lambda: take_own_words_away(made.ground, session_is_over=True))
    if postmaster_of(made.ground.data) is None:
        findings.counts["server down after the moves"] += 1
        made.wait(made.start)
    findings.check(_differences(made, before), "not as it was after the moves and a rollback")


def _last_session(made: Lair, before: State, findings: Findings) -> None:
    """One more session whose folder is away when it is killed: the rollback waits for the folder, then is complete."""
    if findings.wrong and _differences(made, before):
        return
    stop = made.folder.parent / "never"
    etc, away = made.ground.etc, made.ground.etc.with_name("etc.last")
    tuner = _tuner(made, stop)
    deadline = time.monotonic() + BOUND_S
    while not (etc / "pgdyno.conf").exists() and time.monotonic() < deadline and tuner.poll() is None:
        time.sleep(0.005)
    findings.check(not (etc / "pgdyno.conf").exists(), "the suite itself: the last session did not begin")

    def swap() -> None:
        etc.rename(away)
        etc.symlink_to(made.ground.canary / "closed")

    def back() -> None:
        etc.unlink()
        away.rename(etc)

    made.wait(swap)
    tuner.kill()
    tuner.communicate()
    time.sleep(3.0)  # the watchdog tries meanwhile, on the link
    made.wait(back)
    made.wait(made.start)
    _await_no_watchdog(made)
    _roll_back(made, findings)
    findings.check(_differences(made, before), "not as it was after the last session")
    findings.counts["last session: killed while its folder was a link to root's"] += 1


def _await_no_watchdog(made: Lair) -> None:
    """Let the watchdogs finish first: they wait up to half a minute between their attempts."""
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline and _open_sessions(made):
        time.sleep(0.2)


def _open_sessions(made: Lair) -> bool:
    words = [*PGDYNO, "rollback", "--list"]
    done = subprocess.run(words, env=_environment(made), capture_output=True, text=True, check=False)
    states = [line.split()[1:2] for line in done.stdout.splitlines()]  # the words behind may say anything
    return ["abandoned"] in states or ["running"] in states


def _differences(made: Lair, before: State) -> list[str]:
    """Return what is not as it was; a server that still recovers, which `pg_ctl -t 20` may leave so, is waited for."""
    deadline = time.monotonic() + ANSWERS_WITHIN_S
    while postmaster_of(made.ground.data) and not Postgres(made.conninfo).answers() and time.monotonic() < deadline:
        time.sleep(0.2)
    try:
        return before.differences(_server(made))[:8]
    except Exception as error:  # whatever it is, the server is not as it was
        log = (made.ground.home / "log").read_text(errors="replace")
        return [f"{type(error).__name__}: {error}", *log.splitlines()[-40:]]


def _audit(made: Lair, canaries: Mapping[str, str], findings: Findings) -> None:
    """See that nothing outside of the owner's reach changed, and that nothing of root's came into it."""
    now = picture(made.ground.canary)
    changed = sorted(path for path in canaries.keys() | now.keys() if canaries.get(path) != now.get(path))
    findings.check(changed, "canaries of root's changed")
    findings.counts["canaries of root's that are as they were"] = len(canaries) - len(canaries.keys() & set(changed))
    ran = made.ground.log.read_text(errors="replace").splitlines()
    findings.counts["programs of the owner's that ran"] = len(ran)
    as_root = [line for line in ran if line.startswith("0 ")]
    findings.counts["programs of the owner's that ran as root"] = len(as_root)
    findings.check(as_root[:5], "programs of the owner's ran as root")
    findings.check([line for line in ran if "own process failed" in line], "the suite itself")
    findings.check(_holding(made.folder, CANARY), "secrets of root's are in the owner's folder")
    findings.check(_holding(made.state, CANARY), "secrets of root's were copied")
    for path in (made.state, *made.state.rglob("*")):
        status = path.lstat()
        if path.parent == made.state / "cache" / "preflight":
            continue  # the owner's own folder for stand-ins, which only he may enter
        # The load's account has folders for its logs, where nobody takes away what is another's (sticky).
        group = status.st_mode & stat.S_IWGRP and not status.st_mode & stat.S_ISVTX
        loose = (status.st_mode & stat.S_IWOTH or group) and not path.is_symlink()
        whose = f"owner {status.st_uid}, group {status.st_gid}, mode {status.st_mode:o}"
        findings.check((status.st_uid != 0 or loose) and whose, f"{path} of root's state")


def _holding(folder: Path, words: bytes) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a server is at work there
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size < 64 << 20 and words in path.read_bytes():
                found.append(str(path))
    return found
