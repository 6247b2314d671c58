"""What the owner of a server can do with his own rights to whoever works on it as root.

A move is a context: it does harm on entry and takes it away on exit. What pgdyno has put in its place meanwhile stays.
Moves run in a process that has the owner's identity, and fail quietly where the kernel forbids them.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

from file_moves import (
    folder_away,
    folder_copy,
    folder_link,
    garbage,
    hard_link,
    huge_file,
    link,
    mode,
    no_reserve,
    odd_file,
    stranger,
)  # fmt: skip
from ground import Ground, take_own_words_away
from process_moves import crowd, fake_socket, program, server_ended, worker_killed, worker_stopped

RESTARTED = "restarted"
"""The file beside the lair that says that a session has brought a configuration into force with a restart."""
Move = Callable[[Ground, random.Random], AbstractContextManager[None]]
MOST_PENDING = 3
MOST_TIMES = 4
"""How many times the moves that were asked for: a busy machine gives a session less time between two of them."""
MOVES: dict[str, tuple[Move, int]] = {
    "link": (link, 8),
    "hard link": (hard_link, 3),
    "folder replaced by a link": (folder_link, 5),
    "folder away": (folder_away, 3),
    "folder replaced by another": (folder_copy, 4),
    "pipe, socket or folder for a file": (odd_file, 5),
    "1 GB file": (huge_file, 4),
    "garbage": (garbage, 6),
    "somebody else's pid": (stranger, 4),
    "fake socket": (fake_socket, 2),
    "swapped program": (program, 6),
    "mode": (mode, 4),
    "reserve deleted": (no_reserve, 2),
    "worker killed": (worker_killed, 3),
    "worker stopped": (worker_stopped, 2),
    "crowd": (crowd, 1),
    "server ended": (server_ended, 1),
}
"""Each with its share."""


def run(
    ground: Ground,
    count: int,
    seed: int,
    start: Callable[[], object],
    pause_s: float,
    has_shown: Callable[[], bool] = lambda: True,
) -> Counter[str]:
    """Make so many moves, a few pending at a time; now and then all is put right and the server started.

    Up to MOST_TIMES as many are made while `has_shown` says that root has not yet done what the moves are to disturb.
    """
    draw, done = random.Random(seed), Counter[str]()
    names = list(MOVES)
    while (made := sum(done.values())) < count or (made < MOST_TIMES * count and not has_shown()):
        if draw.random() < 0.5:
            _await_session(ground, 15 * pause_s)
        with contextlib.ExitStack() as stack:
            for name in draw.choices(names, [MOVES[name][1] for name in names], k=draw.randint(1, MOST_PENDING)):
                with contextlib.suppress(OSError):
                    stack.enter_context(MOVES[name][0](ground, draw))
                done[name] += 1
                time.sleep(draw.uniform(0, pause_s))
        take_own_words_away(ground)
        if draw.random() < 0.4:
            start()
            time.sleep(draw.uniform(0, 20 * pause_s))
    start()
    return done


def _await_session(ground: Ground, longest_s: float) -> None:
    """Wait a while for a session to be at work: the owner sees what it puts into his folders."""
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and not (ground.etc / "pgdyno.conf").exists():
        time.sleep(0.01)
