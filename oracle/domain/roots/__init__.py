"""The Merkle root of a round, with one leaf per node and proofs for contracts."""
