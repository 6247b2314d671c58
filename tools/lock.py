"""Write the hash-pinned lock files: requirements/run.lock for users, requirements/dev.lock for tests and benches.

Run it with an interpreter of the oldest Python that pyproject.toml names, in an environment with pip-tools:
`make lock`. The files name no index and no host: pip takes both from the user's own settings.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEADER = "# Made by `make lock` from pyproject.toml; every distribution is pinned by hash. Do not edit.\n"


def compile_lock(name: str, requirements: list[str], constraint: Path | None) -> None:
    """Resolve `requirements` into requirements/NAME.lock, agreeing with `constraint` where it is given."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "requirements.in"
        lines = [*requirements, *([f"-c {constraint}"] if constraint else [])]
        source.write_text("\n".join(lines) + "\n")
        output = Path(folder) / "out.lock"
        command = [sys.executable, "-m", "piptools", "compile", "--quiet", "--generate-hashes", "--allow-unsafe"]
        command += ["--strip-extras", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-trusted-host"]
        command += ["--no-emit-options", "--output-file", str(output), str(source)]
        subprocess.run(command, check=True)
        text = "\n".join(line for line in output.read_text().splitlines() if not line.startswith("-c "))
    (ROOT / "requirements" / f"{name}.lock").write_text(HEADER + text.strip() + "\n")


def main() -> None:
    """Compile both locks; the second agrees with the first on every version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    run = [*project["project"]["dependencies"], *extras["replay"], *project["build-system"]["requires"]]
    run += ["editables", "pip"]
    compile_lock("run", run, None)
    dev = [*run, *extras["bench"], *project["dependency-groups"]["dev"]]
    compile_lock("dev", dev, ROOT / "requirements" / "run.lock")


if __name__ == "__main__":
    main()
