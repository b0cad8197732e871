"""Chains of true blocks, and the indexer that follows them."""
