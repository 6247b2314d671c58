"""The statistics: verdicts from interleaved pairs, steady windows, noise floors, latency histograms.

Owns every rule that turns measurements into a word or an interval. Pure: no input or output, no clock; randomness
comes in as a generator. Must not import anything above `model`, and not `scipy.stats` (it costs a second of start-up;
`scipy.special` has what is needed). Read `sequential.py` first: `judge` is the one rule for "is B better than A?".
docs/explanation/statistics.md tells the reasons and the measured error rates.
"""
