"""Pocket's node selector, the cherry picker (pocket.md): tickets by latency and success rate."""
