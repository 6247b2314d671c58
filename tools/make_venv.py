"""Make the virtual environment that all targets of the Makefile use, on a machine that has nothing but Python.

    python3 tools/make_venv.py .venv

Standard library only, and any Python from 3.6: what is too old is said, not a traceback. Debian and Ubuntu ship Python
without what a virtual environment needs (package python3-venv); root installs it, others are told what to ask for.
"""

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)


def main() -> int:
    """Make the folder that is named, whole or not at all; return the exit code."""
    folder = sys.argv[1]
    if sys.version_info < OLDEST:
        return _refuse("Python {}.{} is too old: pgdyno needs 3.11 or later".format(*sys.version_info),
                       "make PYTHON=python3.12 ...")  # fmt: skip
    if not _can_make() and not _install():
        name = "python{}.{}-venv".format(*sys.version_info)
        return _refuse(
            f"{sys.executable} has no ensurepip, which a virtual environment needs",
            f"install it (Debian and Ubuntu: apt-get install {name}), or name another Python: make PYTHON=...",
        )
    done = subprocess.call([sys.executable, "-m", "venv", folder])
    if done != 0:
        # Half an environment would pass for a whole one at the next call of make.
        shutil.rmtree(folder, ignore_errors=True)
    return done


def _can_make() -> bool:
    probe = "import venv, ensurepip, sys; sys.exit(not ensurepip.version())"
    quiet = subprocess.DEVNULL
    return subprocess.call([sys.executable, "-c", probe], stdout=quiet, stderr=quiet) == 0


def _install() -> bool:
    """Install what the distribution has split off, where that is possible; return whether it is there now."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    print(f"installing python3-venv, which {sys.executable} lacks")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "python3-venv"]
    for command in (["apt-get", "update", "--quiet"], install):
        if subprocess.call(command, env=environment, stdout=subprocess.DEVNULL) != 0:
            return False
    return _can_make()


def _refuse(message: str, hint: str) -> int:
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
