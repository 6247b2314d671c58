"""A database host that is reached by the user's own OpenSSH: the same code runs there as an agent.

The tuner's side: `address`, `ssh`, `payload`, `client`, `host`, `session`. The host's: `bootstrap`, `agent`,
`dispatcher`. Between them: one JSON object a line (`wire`).
"""
