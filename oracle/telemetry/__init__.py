"""Logs, metrics and traces of the daemon."""
