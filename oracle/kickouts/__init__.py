"""Kickouts: accusation by proof, execution, clearing, and the evidence files."""
