"""What a PostgreSQL server says and has: SQL, settings, databases, rights, programs and its process."""
