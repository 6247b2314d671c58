"""A target: a server and its host, how it is reached, and what is read of it."""
