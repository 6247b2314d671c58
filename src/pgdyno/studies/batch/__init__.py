"""Batch chains: run or imported, and compared with the window of today."""
