"""Reading the chain: heads, windows of verified logs, decoding, proofs and profiles."""
