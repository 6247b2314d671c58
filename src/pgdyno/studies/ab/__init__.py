"""Two configurations against each other: the A/B experiment and its page."""
