"""Two platforms, or several generations of one, against each other by every denominator."""
