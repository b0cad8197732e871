"""Pocket's node selector ("cherry picker"), which assigns tickets by latency and success rate.

See docs/explanation/pocket.md.
"""
