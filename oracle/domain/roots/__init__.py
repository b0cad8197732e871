"""The Merkle root of a round: one leaf for each node, with proofs that a contract verifies."""
