"""Pocket's node selector, the cherry picker: tickets by latency and success rate.

See docs/explanation/pocket.md.
"""
