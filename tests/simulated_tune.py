"""A whole tune of a simulated laboratory, and the short plan that most tests give it."""

from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.run import tune

OPTIONS = TuneOptions(trials=14, noise_runs=4, confirm_max=8, rivals={"4GB": {"shared_buffers": "4GB"}})


def run(laboratory, options=OPTIONS):
    """Return what the tune found and the lines that it said."""
    said = []
    laboratory.budget(options.budget_s)
    return tune(laboratory, options, said.append), said
