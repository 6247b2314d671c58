"""A hostile database host: stands in for ssh, speaks the protocol of the agent, and answers as it was told to.

`PGDYNO_SSH="python hostile_agent.py ANSWERS.json"`: a file of answers by call; a text in it is sent as it stands.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

LOOK = {
    "python": "/usr/bin/python3",
    "version": "3.11",
    "user": "u",
    "libpq": "libpq.so.5",
    "folder": "/c",
    "sudo": None,
}


def main(answers: dict[str, object], argv: list[str]) -> int:
    words = shlex.split(argv[-1])
    if words[-1] == "look":
        _send(answers.get("look", LOOK))
        return 0
    if "launch" not in words:
        return 0  # a forward, or the end of the master
    _send(answers.get("hello", {"hello": {"version": "0", "digest": words[-1]}}))
    for line in sys.stdin:
        message = json.loads(line)
        if message:
            answer = answers.get(message["call"], {})
            _send(answer if isinstance(answer, str) else {"id": message["id"], "gives": answer})
    return 0


def _send(answer: object) -> None:
    sys.stdout.write(f"{answer if isinstance(answer, str) else json.dumps(answer)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2:]))
