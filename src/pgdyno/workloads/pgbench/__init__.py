"""pgbench: its command line, its load, its log and what is folded of it."""
