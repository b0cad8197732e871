"""Candidates, weights and draws, for readers."""
