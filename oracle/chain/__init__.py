"""The chain, read: heads, windows of checked logs, decoding, proofs, profiles."""
