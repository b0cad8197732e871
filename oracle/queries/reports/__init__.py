"""Queries about reports and rounds: recomputation and comparison with the published ones."""
