"""Stored knowledge about endpoints, and the waits of `run --once` for rate-limited ones."""
