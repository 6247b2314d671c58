"""Kill, hang and starve everything, over and over, and count how often the server came back as it was.

    python bench/torture kills [--kills 300] [--jobs 2] [--only KIND] [--folder DIR] [--linux] [--first PHASE]
    python bench/torture scenes [--rounds 5] [--only SCENE] [--seed 1]
    python bench/torture hostile [--moves 1000] [--seed 1]

`kills` runs real tunes through the command line, of a load that takes them through search and proof within
minutes, resumed after each kill so that all phases get their share, and strikes in 22 ways (kinds.py) at random
instants: signals of all sorts to the tuner, its watchdogs, its helpers, the load and the server, alone and together.
With --jobs each has a sandbox of its own. With --linux a tune has more settings to screen and takes longer: --first
leaves it alone until then. `scenes` plays what a kill cannot: a full disk, a server that hangs, that starves, that
cannot start; people who edit, stop and tune meanwhile. `hostile` lets the server's owner do what he can while root
tunes. All print counts and times and end with status 1 when anything was lost. Kernel values that are others at the
end than at the beginning count as lost, and are put back.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from hostile import torment
from kernel_values import kernel_kept
from kills import Kill, Kills, summary
from kinds import KINDS
from scenes import SCENES, play_all
from steered import PHASES


def main() -> int:
    """Run one of the parts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell has what it starts with & ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was changed goes back then, too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["kills", "scenes", "hostile"])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1, help="sandboxes that are tortured at the same time")
    parser.add_argument("--only", action="append", default=[], help="a kind of kills, or a scene; may be repeated")
    parser.add_argument("--moves", type=int, default=1000)
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
        with kernel_kept() as left:
            status = _play(folder, given)
        for line in left:
            print(f"LEFT CHANGED {line}")
        return 1 if left else status


def _play(folder: Path, given: argparse.Namespace) -> int:
    if given.part == "scenes":
        return play_all(folder, rounds=given.rounds, seed=given.seed, names=tuple(given.only) or SCENES)
    if given.part == "hostile":
        return torment(folder, moves=given.moves, seed=given.seed)
    return _kill_all(folder, given)


def _kill_all(folder: Path, given: argparse.Namespace) -> int:
    """Kill in as many lanes as there are jobs; the kinds are drawn anew in each."""
    unknown = set(given.only) - set(KINDS)
    if unknown or (given.linux and given.jobs > 1):
        print(f"no such kind: {', '.join(unknown)}" if unknown else "--linux changes the machine: one job at a time")
        return 2
    counter = itertools.count(1)

    def lane(number: int) -> list[Kill]:
        place = folder / str(number)
        place.mkdir(exist_ok=True)
        place.chmod(0o755)
        draw = random.Random(f"{given.seed} {number}")
        kills = Kills(
            place, draw, linux=given.linux, settle_s=given.settle, first=given.first, only=given.only, lane=number
        )
        try:
            while (count := next(counter)) <= given.kills:
                print(f"{count}/{given.kills} {kills.once()}", flush=True)
        finally:
            kills.close()
        return kills.done

    with ThreadPoolExecutor(given.jobs) as pool:
        done = [kill for kills in pool.map(lane, range(given.jobs)) for kill in kills]
    print(summary(done))
    return 0 if all(kill.whole for kill in done) else 1


if __name__ == "__main__":
    sys.exit(main())
