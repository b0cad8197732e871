"""Kickouts: eligibility, evidence, proposal, execution and cancellation."""
