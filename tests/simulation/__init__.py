"""Seeded chaos for the outbox: a chain that executes blindly, and the real services before it.

Nothing here is idempotent but the outbox itself: the same payload twice is executed twice, and
counted. `run.py` says how to play a seed again.
"""
