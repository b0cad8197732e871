"""Stores raw rows: logs, calls, blocks, coverage, dead letters and reorgs."""
