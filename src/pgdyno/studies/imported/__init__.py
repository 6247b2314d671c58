"""Runs of other tools and samples of other machines: read, never measured here."""
