"""How a live study went: what happened when, and the figures of that. Imports nothing that touches a server."""
