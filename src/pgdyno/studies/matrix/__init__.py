"""Cells of many factors, each measured for itself, and their page. Read `plan.py` first."""
