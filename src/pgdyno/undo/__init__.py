"""A session on a server from its bundle to its end: apply, restore, roll back, and the watchdog."""
