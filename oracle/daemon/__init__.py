"""Runs the daemon: its jobs, lease and HTTP servers, and the setup shared with commands."""
