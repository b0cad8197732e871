"""Pure functions for proofs: RLP, tries, blooms, header hashes, receipts roots."""
