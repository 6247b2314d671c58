"""`python -m pgdyno`."""

import sys

try:
    from pgdyno.cli.main import main
except BaseException as error:  # Ctrl-C while Python loads; below 3.12 it may come wrapped
    if not any(isinstance(one, KeyboardInterrupt) for one in (error, error.__cause__)):
        raise
    sys.exit(130)

main()
