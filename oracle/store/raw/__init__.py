"""Repositories of raw rows: logs, calls, blocks, coverage, dead letters, reorgs."""
