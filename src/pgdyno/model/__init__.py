"""The nouns as frozen dataclasses: facts, configuration, trial, study, samples, verdict, figure.

Owns no behaviour beyond what follows from the fields, does no input or output, and imports the standard library
only, with `errors` and `units` beside it. Everything above speaks in these types. Read `trial.py` first.
"""
