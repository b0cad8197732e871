"""Ingests blocks in windows, folds them into the state, and rewinds or repairs it."""
