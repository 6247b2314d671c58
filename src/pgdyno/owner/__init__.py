"""Work on a server's files as the account that runs the server, never as root.

`account` says who that is, `tasks` is the complete list of what can be done, `worker` is the process that does it with
the account's user id, group id and groups, `hands` is what the rest of pgdyno calls. Standard library only, because
the watchdog on a bare host needs all of it. The decision record is docs/adr/0012-privileges.md.
"""
