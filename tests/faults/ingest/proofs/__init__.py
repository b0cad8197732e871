"""Proven and unproven data, and the detection of lying endpoints."""
