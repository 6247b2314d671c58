"""Reads the host: one small pure parser for each file of /proc, and rows from two readings.

Every parser takes the text of the file, so that a capture of another machine tests it. Read `reading.py` first.
"""
