"""Seeded simulations of the outbox: the real services send to a chain that executes everything.

Only the outbox prevents duplicates: the chain executes the same payload twice if it is sent twice,
and the simulation counts both. `run.py` describes how to repeat a seed.
"""
