"""Lets workers prepare the history in parts, which are applied in order.

See docs/explanation/segments.md.
"""
