"""Merkle roots of rounds: leaves, trees and proofs."""
