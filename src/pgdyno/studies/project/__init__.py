"""A benchmark project: its file, what is missing of it, and its page."""
