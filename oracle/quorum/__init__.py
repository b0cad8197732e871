"""Signatures of k-of-n reporters over one statement: sign once, exchange, gather, compare."""
