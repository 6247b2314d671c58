"""How much runs of the same configuration differ: the noise floor and its page."""
