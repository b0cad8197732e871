"""Nonces, fees, receipts and lost responses."""
