"""Counts what the repository consists of, for `make house`."""
