"""What comes from outside: files, documents and words that a user, a tool or another machine hands to pgdyno.

Everything here is bounded in size, depth and time, and raises an error of ours or ValueError, never anything else.
Above `errors` alone and of the standard library only, because every layer reads something of others.
"""
