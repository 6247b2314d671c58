"""The embedded PostgreSQL: made, bounded, kept and removed."""
