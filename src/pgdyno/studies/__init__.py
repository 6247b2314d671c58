"""Studies: trials with a question. bench, A/B and tune on one engine.

`blocks.py` runs the arms of a comparison in randomised interleaved blocks; every verdict of every study comes from
it and from `stats.sequential`. `stand.py` opens and closes what a study needs; `tune.py` is the main job: read that
first. Must not import report or cli.
"""
