"""Interleaved pairs: their blocks, their verdicts, and what is told of both sides."""
