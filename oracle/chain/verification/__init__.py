"""Verifies block windows by header hashes, blooms and receipts, as far as calibrated."""
