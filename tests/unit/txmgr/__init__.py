"""Tests of the transaction manager without a chain: fees, nonces, budgets."""
