"""Reorgs, changes of final blocks, and kickouts that are withdrawn."""
