"""Pure functions that compute RLP, tries, blooms, header hashes and receipts roots for proofs."""
