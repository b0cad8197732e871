"""Reads the chain: its heads, and windows of verified logs and calls decoded into events."""
