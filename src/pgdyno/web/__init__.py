"""The dashboard: what runs, what waits and what was found, in a browser. Reads the store and measures nothing."""
