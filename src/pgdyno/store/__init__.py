"""Keeps studies, trials and samples: one schema, SQLite in a file or PostgreSQL by URL, through SQLAlchemy Core.

Owns the schema, its migrations and the rule that a finished trial never changes. Must not import `target`,
`optimizer` or anything above; it runs nothing. Read `catalogue.py` first (the `Store`), then `schema.py`.
"""
