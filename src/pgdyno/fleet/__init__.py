"""Load generators: one or many, started together, their results added up. Imports probes' siblings downwards only."""
