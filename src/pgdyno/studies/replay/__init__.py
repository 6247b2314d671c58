"""A captured load, sent to another server: whether it may be, the run, and what came of it."""
