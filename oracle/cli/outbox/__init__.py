"""`outbox` list, show, hold, release, bump, cancel, rebuild."""
