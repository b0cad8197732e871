"""Blocks in: one window, one transaction; reorgs, rebuild, backfill."""
