"""The `outbox` commands: list, show, hold, release, bump, cancel, rebuild."""
