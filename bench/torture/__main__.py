"""Kill, hang and starve everything, over and over, and count how often the server came back as it was.

    python bench/torture kills [--kills 300] [--seed 1] [--folder DIR] [--linux] [--first pruning]
    python bench/torture scenes [--rounds 5] [--seed 1]

`kills` runs real tunes through the command line, of a load that takes them through search, pruning and proof within
four minutes, resumed after each kill so that all phases get their share, and kills at random instants: the tuner; the
tuner and its watchdogs one after the other; the postmaster. With --linux a tune has more settings to screen and takes
longer: --first leaves it alone until then. `scenes` plays what a kill cannot: a full disk, a server that hangs, that
starves, that cannot start. Both print counts and times and end with status 1 when anything was lost.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from kills import Kills, summary
from scenes import play_all
from steered import PHASES


def main() -> int:
    """Run one of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["kills", "scenes"])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--settle", type=float, default=0.0, metavar="SECONDS", help="how long other programs may hold kernel values"
    )
    parser.add_argument(
        "--linux",
        action="store_true",
        help="search Linux knobs too, and compare kernel values: one run at a time, as root",
    )
    parser.add_argument(
        "--first", choices=PHASES, default=PHASES[0], help="kill from this phase on; before it a tune is left alone"
    )
    parser.add_argument("--folder", type=Path, help="where everything is kept; a temporary one by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgdyno-torture-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # as root the server runs as another user, who has to get in
        if given.part == "scenes":
            return play_all(folder, rounds=given.rounds, seed=given.seed)
        kills = Kills(folder, random.Random(given.seed), linux=given.linux, settle_s=given.settle, first=given.first)
        try:
            for number in range(1, given.kills + 1):
                print(f"{number}/{given.kills} {kills.once()}", flush=True)
        finally:
            kills.close()
        print(summary(kills.done))
        return 0 if all(kill.whole for kill in kills.done) else 1


if __name__ == "__main__":
    sys.exit(main())
