"""Verifies windows of blocks by header hashes, blooms and receipts, as far as calibrated."""
