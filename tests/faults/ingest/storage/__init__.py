"""Databases and processes that fail in the middle of their work."""
