"""Candidates, weights and draws, for whoever asks."""
