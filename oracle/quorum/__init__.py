"""Signatures of k of n reporters over a statement: sign once, exchange, collect and compare."""
