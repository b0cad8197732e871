"""Databases and processes that die on the way."""
