"""A server under its users' own load, watched for days: what became slower, and what somebody changed."""
