"""Nonces, fees, receipts and lost answers."""
