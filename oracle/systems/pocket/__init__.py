"""Pocket's node selector: tickets by latency and success rate (seeds/003)."""
