"""Hypothesis at length: whatever happens, the index comes to hold the chain."""
