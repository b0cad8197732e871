"""Measures the repository for `make house`."""
