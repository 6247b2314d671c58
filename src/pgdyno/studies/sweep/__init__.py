"""Levels of one setting, or two factors with and without each other, and their page."""
