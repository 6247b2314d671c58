"""pgdyno puts PostgreSQL on a dynamometer: it measures, says what to change and why, and proves each gain.

The layers and what each package owns are in ARCHITECTURE.md.
"""

__version__ = "0.2.0"
