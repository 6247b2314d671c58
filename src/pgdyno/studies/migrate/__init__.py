"""A rehearsal of a migration as a study: its plan, its run, its page, and two of them compared."""
