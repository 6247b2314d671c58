"""Pure parsers that turn the raw texts of a capture into the inventory of a host and its server.

Nothing here asks the machine it runs on: architecture, page size and kernel are the capture's own, or unknown.
"""
