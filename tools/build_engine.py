"""Build the compiled engine of a replay where there is a Rust toolchain, and put it where pgdyno finds it.

Standard library only. Without a toolchain it says so and leaves everything as it is: the Python engine does the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CRATE = ROOT / "engine"
BUILT = CRATE / "target" / "release" / "pgdyno-engine"
INSTALLED = ROOT / "src" / "pgdyno" / "trace" / "bin" / "pgdyno-engine"
"""Where `trace/engines.py` looks, and what a wheel takes along."""
OLDEST = (1, 75)
TIMEOUT_S = 600.0


def toolchain() -> tuple[Path, dict[str, str]] | None:
    """Return the first cargo on PATH that works and is new enough, with the environment for it; None where none is.

    rustc is taken from the folder of cargo: Debian's plain package may hide a newer one elsewhere.
    """
    for folder in dict.fromkeys(os.get_exec_path()):
        cargo, rustc = Path(folder, "cargo"), Path(folder, "rustc")
        if _version(cargo) >= OLDEST and _version(rustc) >= OLDEST and shutil.which("cc") is not None:
            return cargo, {**os.environ, "RUSTC": str(rustc), "CARGO_NET_OFFLINE": "true"}
    return None


def _version(program: Path) -> tuple[int, ...]:
    if not os.access(program, os.X_OK):
        return ()
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.match(r"\w+ (\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def is_current() -> bool:
    """Tell whether what is installed is newer than all that it is made of."""
    if not INSTALLED.exists():
        return False
    sources = (CRATE / "Cargo.toml", *CRATE.glob("src/**/*.rs"))
    return INSTALLED.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def cargo(command: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    """Run a command of cargo in the crate, without a network; None where there is no toolchain."""
    return _cargo(command, "--offline", "--quiet", *words)


def _cargo(*words: str) -> subprocess.CompletedProcess[str] | None:
    found = toolchain()
    if found is None:
        return None
    program, environment = found
    return subprocess.run(
        [program, *words], cwd=CRATE, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )


def build() -> str | None:
    """Build and install the engine unless it is current; return why not, or None. Raises SystemExit where it fails."""
    if is_current():
        return None
    done = cargo("build", "--release")
    if done is None:
        return f"no cargo and rustc of {'.'.join(map(str, OLDEST))} or newer, with a C linker, on PATH"
    if done.returncode != 0:
        raise SystemExit(f"the compiled engine cannot be built:\n{done.stderr}")
    INSTALLED.parent.mkdir(exist_ok=True)
    new = INSTALLED.with_name(f".{INSTALLED.name}.{os.getpid()}")
    shutil.copyfile(BUILT, new)
    new.chmod(0o755)
    new.replace(INSTALLED)
    return None


def lint() -> str | None:
    """Return what rustfmt and clippy have to say, where they are there; None where that is nothing."""
    for words in (["fmt", "--check"], ["clippy", "--all-targets", "--offline", "--", "--deny=warnings"]):
        if (done := _cargo(words[0], "--version")) is None or done.returncode != 0:
            continue
        if (done := _cargo(*words)) is not None and done.returncode != 0:
            return done.stdout + done.stderr
    return None


def main() -> None:
    """Build it, or say why not; with `--lint` only look at the sources."""
    if sys.argv[1:] == ["--lint"]:
        sys.exit(lint())
    reason = build()
    if reason is not None:
        sys.stderr.write(f"no compiled engine: {reason}; the Python engine is used\n")


if __name__ == "__main__":
    main()
