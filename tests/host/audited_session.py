"""Run a session and look at its server's log as root, and tell which files of the server this process touched itself.

audited_session.py CONNINFO UNDO_ROOT: prints one line of JSON. Not a test: run by test_owner_programs, with the folder
to watch in the environment (root_audit.py).
"""

import json
import sys
from pathlib import Path

from root_audit import touched

from pgdyno.inventory.inspection import inspect
from pgdyno.model.configuration import Configuration
from pgdyno.targets import server_log
from pgdyno.targets.connect import open_target
from pgdyno.undo.apply import Session
from pgdyno.undo.watch import Deadlines

target = open_target(sys.argv[1])
inspect(target)
server_log.log_files(target)
applied = 0
with Session.begin(target, study="audit", undo_root=Path(sys.argv[2]), watch=Deadlines()) as session:
    for settings in ({"work_mem": "8MB"}, {"shared_buffers": "32MB"}):
        session.apply(Configuration.of(settings))
        applied += 1
sys.stdout.write(json.dumps({"applied": applied, "touched": sorted(touched)}) + "\n")
