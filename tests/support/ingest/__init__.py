"""Chains of real blocks, and the indexer that follows them."""
