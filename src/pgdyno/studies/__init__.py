"""Studies: trials with a question, one folder a kind, and what they share.

Every verdict of every study comes from `pairs/blocks.py`, which runs arms in randomised interleaved blocks, and from
`stats.sequential`. `session/study_session.py` opens and closes what a study needs; `kinds.py` finds what is special to
a kind. `tune/run.py` is the main job: read that first. Must not import cli.
"""
