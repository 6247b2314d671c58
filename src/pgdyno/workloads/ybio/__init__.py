"""The YBIO shape: its table, its procedures and the figures of a run."""
