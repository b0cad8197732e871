"""Runs the daemon: its jobs, its lease, its HTTP servers, and the setup that commands share."""
