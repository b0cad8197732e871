"""The Merkle root of a round, with a leaf for each node and proofs that a contract verifies."""
