"""Writes scores of accepted rounds to the hot set, where contracts read them without proofs."""
