"""The optimiser: a calculator that turns the history of a study into the next point to try.

Owns the Gaussian process, the acquisition and the stopping rule. Pure: it holds no state between calls, draws all
randomness from the seed that it is given, and must not import `target`, `store` or anything above them.
Read `ask.py` first, then `gp.py`; docs/explanation/optimizer.md has the reasoning and the measured figures.
"""
