"""`outbox` list, show, hold, release, bump, cancel, adopt."""
