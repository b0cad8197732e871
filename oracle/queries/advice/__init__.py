"""Advice for the owner of a node: what is coming, what would have been, and what it costs."""
