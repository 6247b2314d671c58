"""Raw texts of a host and its server: read there in one go, kept in a folder, parsed by `inventory`.

Nothing here parses; what is read is written down as the kernel, a program or the server gave it, secrets left out.
"""
