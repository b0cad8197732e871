"""Pure arithmetic of proofs: RLP, tries, blooms, header hashes, receipts roots."""
