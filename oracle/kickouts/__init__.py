"""Kickouts: who is due, evidence, proposal, execution, cancellation."""
