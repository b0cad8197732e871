"""Runs the daemon's HTTP servers, and protects them against abusive clients."""
