"""Recorded chains of real contracts, replayed through the product and compared with the truth."""
