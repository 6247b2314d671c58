"""The life of one measured run: check, apply, reset, load, collect, conclude.

`lifecycle.py` is the whole order of a trial as a pure state machine (events in, instructions out);
`laboratory.py` carries the instructions out on a real target; `assess.py` turns what came back into an outcome.
Must not import studies, report or cli. Read `lifecycle.py` first.
"""
