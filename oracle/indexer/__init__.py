"""Ingests blocks in windows, folds them into the state, and undoes and repairs what changed."""
