"""One file for each revision, in order; a released one never changes."""
