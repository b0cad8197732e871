"""Nonces after a crash, a lost database or a foreign transaction."""
