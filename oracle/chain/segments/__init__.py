"""Lets workers prepare parts of the history, which are applied in order.

See docs/explanation/segments.md.
"""
