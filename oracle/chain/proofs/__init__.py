"""Pure functions for proofs: RLP, tries, blooms, header hashes and receipts roots."""
