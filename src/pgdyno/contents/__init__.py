"""What two databases hold, compared to the row.

Owns the checksums of tables and the search for the rows that differ. Reads only, each side in one snapshot. Must not
import a room that changes a server; whoever compares (a replay, a migration) decides what a difference means.
Read `comparing.py` first.
"""
