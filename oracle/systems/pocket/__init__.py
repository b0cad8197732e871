"""Pocket's node selector, which assigns tickets by latency and success rate.

Pocket calls it "cherry picker". See docs/explanation/pocket.md.
"""
