"""The history of the store's schema, run by Alembic from `store/migrate.py`; never imported by anything else."""
