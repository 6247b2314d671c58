"""Jobs that wait for a window of time, and what runs in it."""
