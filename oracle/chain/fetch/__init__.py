"""Fetching of block windows: range sizes, choice of endpoints, and storage of limits."""
